"""Stable-Baselines3's PPO around its vector environments of anybody.

Settings: those of `ppo_settings.py`; one call of `learn` is one rollout and its updates.
"""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from collections.abc import Callable
from typing import Any

import torch
from stable_baselines3 import PPO

from drivetrain.bench.sim.peers.entry import Simulator
from drivetrain.bench.sim.peers.ppo_settings import settings_for
from drivetrain.bench.sim.scene import Scene


def learning(scene: Scene, make: Callable[[Scene], Any]) -> Simulator:
    """PPO around the environments that `make` makes."""
    torch.set_num_threads(1)
    settings = settings_for(scene.num_envs)
    model = PPO(
        "MlpPolicy",
        make(scene),
        n_steps=settings.n_steps,
        batch_size=settings.batch_size,
        n_epochs=settings.n_epochs,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        learning_rate=settings.learning_rate,
        seed=0,
        device="cpu",
    )

    def run() -> int:
        model.learn(settings.steps_per_rollout, reset_num_timesteps=False)
        return settings.steps_per_rollout

    return run
