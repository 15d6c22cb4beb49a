"""Stable-Baselines3 or SBX on an Atari game: their own network, preprocessing and environments as RL-zoo has them."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import importlib
import sys

import ale_py
import gymnasium
import torch
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

from drivetrain.bench.scope.window import window

MODULES = {"SB3": "stable_baselines3", "SBX": "sbx"}
NUM_ENVS = {"A2C": 16, "PPO": 8, "DQN": 1}
SETTINGS = {
    "A2C": {"vf_coef": 0.25, "ent_coef": 0.01},
    "PPO": {"n_steps": 128, "n_epochs": 4, "batch_size": 256},
    "DQN": {"learning_starts": 100, "buffer_size": 10_000, "train_freq": 4, "gradient_steps": 1},
}
"""RL-zoo's, but for a smaller replay that learns at once."""


def main(framework: str, algo: str, env: str, num_steps: int) -> None:
    """Train by SB3 or SBX."""
    torch.set_num_threads(1)
    gymnasium.register_envs(ale_py)
    envs = VecFrameStack(make_atari_env(env, n_envs=NUM_ENVS[algo], seed=1), n_stack=4)
    model = getattr(importlib.import_module(MODULES[framework]), algo)("CnnPolicy", envs, seed=1, **SETTINGS[algo])
    with window():
        model.learn(num_steps)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
