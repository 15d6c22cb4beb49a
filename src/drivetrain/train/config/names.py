"""Names of settings that are none here, and what they are likely to mean."""

import difflib
from collections.abc import Collection, Iterable

from drivetrain.core.errors import InvalidInput

_CALLED_ELSEWHERE = {
    "total_timesteps": "total_steps", "lr": "learning_rate", "n_envs": "num_envs", "n_steps": "rollout_length",
    "num_steps": "rollout_length", "n_epochs": "num_epochs", "update_epochs": "num_epochs", "buffer_size": "capacity",
    "learning_starts": "warmup_steps", "tau": "target_tau", "ent_coef": "entropy_coefficient",
    "clip_coef": "clip_range", "vf_coef": "value_coefficient", "max_grad_norm": "max_gradient_norm",
    "clip_range_vf": "value_clip_range", "normalize_advantage": "normalize_advantages", "net_arch": "hidden",
    "gradient_steps": "update_ratio", "train_freq": "update_ratio", "target_update_interval": "target_interval",
    "exploration_fraction": "exploration_steps", "exploration_initial_eps": "epsilon_start",
    "exploration_final_eps": "epsilon_end", "action_noise": "exploration_noise",
}  # fmt: skip
"""What Stable-Baselines3 and CleanRL call settings of ours."""


def unknown(name: str, algo: str, known: Collection[str]) -> InvalidInput:
    """The refusal of a setting that an algorithm does not have: names what is near, and all that it has."""
    nearest = [_CALLED_ELSEWHERE.get(name, ""), *difflib.get_close_matches(name, known, n=1, cutoff=0.75)]
    guess = next((f"did you mean {found}? " for found in nearest if found in known), "")
    return InvalidInput(f"unknown setting {name!r} for {algo}: {guess}choose from {', '.join(sorted(known))}")


def require_known_parts(data: Iterable[str], known: Collection[str]) -> None:
    """Let the names of a saved configuration's parts pass.

    Raises:
        InvalidInput: One is not known: what it sets would silently be left out.
    """
    if strange := [name for name in data if name not in known]:
        raise InvalidInput(
            f"unknown part {strange[0]!r}: written by a newer drivetrain, or by hand; upgrade to read it"
        )
