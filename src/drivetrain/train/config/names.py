"""Names of settings that are none here, and what they are likely to mean."""

import difflib
from collections.abc import Collection

from drivetrain.core.errors import InvalidInput

CALLED_ELSEWHERE = {
    "total_timesteps": "total_steps", "n_timesteps": "total_steps", "timesteps": "total_steps",
    "steps": "total_steps", "lr": "learning_rate", "q_lr": "learning_rate", "policy_lr": "learning_rate",
    "anneal_lr": "learning_rate_schedule", "log_std_init": "initial_log_std",
    "n_envs": "num_envs envs_per_actor", "num_envs": "envs_per_actor", "num_workers": "num_actors",
    "n_steps": "rollout_length num_step", "num_steps": "rollout_length num_step", "n_step": "num_step",
    "n_epochs": "num_epochs", "update_epochs": "num_epochs", "num_minibatches": "batch_size",
    "buffer_size": "capacity", "learning_starts": "warmup_steps", "tau": "target_tau", "train_freq": "update_ratio",
    "train_frequency": "update_ratio", "gradient_steps": "update_ratio",
    "target_update_interval": "target_interval", "target_network_frequency": "target_interval",
    "ent_coef": "entropy_coefficient initial_temperature", "vf_coef": "value_coefficient",
    "autotune": "learn_temperature", "clip_coef": "clip_range", "clip_range_vf": "value_clip_range",
    "max_grad_norm": "max_gradient_norm", "normalize_advantage": "normalize_advantages",
    "norm_adv": "normalize_advantages", "normalize": "normalize_observations",
    "norm_obs": "normalize_observations", "norm_reward": "normalize_rewards",
    "net_arch": "hidden", "activation_fn": "activation", "optimizer_class": "optimizer", "policy_kwargs": "hidden",
    "share_features_extractor": "share_torso", "exploration_fraction": "exploration_steps",
    "exploration_initial_eps": "epsilon_start", "start_e": "epsilon_start", "exploration_final_eps": "epsilon_end",
    "end_e": "epsilon_end", "action_noise": "exploration_noise", "noise_std": "exploration_noise",
    "target_policy_noise": "target_noise", "v_min": "value_min", "v_max": "value_max",
    "policy_noise": "target_noise", "noise_clip": "target_noise_clip", "policy_frequency": "policy_delay",
    "use_sde": "noise_correlation", "n_sampled_goal": "hindsight_goals",
    "goal_selection_strategy": "hindsight_strategy", "n_stack": "frame_stack", "eval_freq": "eval_interval_steps",
    "n_eval_episodes": "eval_episodes", "save_freq": "checkpoint_interval_s", "tensorboard_log": "run_dir",
    "track": "wandb", "wandb_project_name": "wandb", "cuda": "device", "clip_vloss": "value_clip_range",
    "prioritized_replay_alpha": "alpha", "prioritized_replay_beta": "beta", "trained_agent": "init_from",
    "log_folder": "run_dir", "log_dir": "run_dir", "logdir": "run_dir", "output": "run_dir", "output_dir": "run_dir",
    "out": "run_dir", "save_dir": "run_dir", "save_path": "run_dir", "exp_name": "run_dir", "workers": "num_actors",
    "gpu": "device",
}  # fmt: skip
"""What Stable-Baselines3, its zoo, CleanRL and people call settings; where there are two, no algorithm has both."""
_NO_SETTINGS = {"callback": "callbacks=[...]", "env_id": "env", "seeds": "train_seeds(..., seeds=...)"}
"""What is said in Python otherwise than by a setting."""


def called_elsewhere(name: str, known: Collection[str]) -> str | None:
    """The setting of ours, among those that are known, that others call `name`; None where there is none."""
    return next((ours for ours in CALLED_ELSEWHERE.get(name, "").split() if ours in known), None)


def unknown(name: str, algo: str, known: Collection[str]) -> InvalidInput:
    """The refusal of a setting that an algorithm does not have: names what is near, and all that it has."""
    if name in _NO_SETTINGS:
        meant = _NO_SETTINGS[name]
    elif name in CALLED_ELSEWHERE:
        meant = called_elsewhere(name, known)
    else:
        meant = next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.75)), None)
    guess = "" if meant is None else f"did you mean {meant}? "
    return InvalidInput(f"unknown setting {name!r} for {algo}: {guess}choose from {', '.join(sorted(known))}")
