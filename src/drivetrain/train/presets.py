"""Settings per algorithm and per environment, each with its source."""

from fractions import Fraction
from typing import Any

from drivetrain.train.config import TrainConfig

# The papers' batch of 256 and one update per step, uniform one-step replay of a million transitions
# (Fujimoto et al. 2018, Haarnoja et al. 2018b; Stable-Baselines3's defaults), which the algorithms
# for continuous actions are compared at.
_OFF_POLICY_CONTINUOUS: dict[str, Any] = {
    "batch_size": 256,
    "update_ratio": Fraction(1),
    "warmup_steps": 1_000,
    "updates_per_call": 8,
    "tolerance": 16,
    "capacity": 1_000_000,
    "prioritized": False,
    "num_step": 1,
}
_DEFAULTS: dict[str, dict[str, Any]] = dict.fromkeys(("ddpg", "td3", "sac"), _OFF_POLICY_CONTINUOUS)
"""Where an algorithm's usual settings are not the dataclasses' defaults."""

_PRESETS: dict[tuple[str, str], dict[str, Any]] = {
    # Our own sweep (design/training-defaults.md), which started from the settings of RL Baselines3 Zoo
    # (hyperparams/dqn.yml, CartPole-v1: 50,000 steps, learning rate 2.3e-3, batch 64, 256 x 256,
    # 128 updates per 256 steps, exploration over 16% of the steps down to 0.04).
    ("dqn", "CartPole-v1"): {
        "total_steps": 50_000,
        "capacity": 100_000,
        "num_step": 5,
        "hidden": (128, 128),
        "learning_rate": 2e-3,
        "target_tau": 0.01,
        "batch_size": 64,
        "update_ratio": Fraction(1, 2),
        "exploration_steps": 8_000,
        "epsilon_end": 0.04,
    },
}


def preset(algo: str, env: str) -> TrainConfig:
    """The configuration to start from."""
    return TrainConfig.default(algo, env).override(**{**_DEFAULTS.get(algo, {}), **_PRESETS.get((algo, env), {})})
