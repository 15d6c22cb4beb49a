"""Atari's games as the peers have them: Stable-Baselines3's wrappers, which CleanRL's files use, too."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import importlib

import gymnasium
import numpy as np
from stable_baselines3.common.atari_wrappers import AtariWrapper
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack

from drivetrain.bench.train.job import Job

FRAMES = 4  # in a stack, and of the game to a step


def make_envs(job: Job, num_envs: int) -> VecEnv:
    """Stable-Baselines3's environments of a job."""
    if not job.on_images:
        return make_vec_env(job.env, n_envs=num_envs, seed=job.seed)
    _register()
    return VecFrameStack(make_atari_env(job.env, n_envs=num_envs, seed=job.seed, env_kwargs={"frameskip": 1}), FRAMES)


def policy_of(job: Job) -> str:
    """The name of its network."""
    return "CnnPolicy" if job.on_images else "MlpPolicy"


def single_env(env: str) -> gymnasium.Env:
    """One game in the manner of CleanRL's files: uint8 [frames, height, width]."""
    _register()
    wrapped = AtariWrapper(gymnasium.make(env, frameskip=1), frame_skip=FRAMES)
    flat = gymnasium.wrappers.TransformObservation(
        wrapped, lambda frame: frame[..., 0], gymnasium.spaces.Box(0, 255, (84, 84), np.uint8)
    )
    return gymnasium.wrappers.FrameStackObservation(flat, FRAMES)


def _register() -> None:
    # Here, for these peers play CartPole without the extra `atari`, too.
    gymnasium.register_envs(importlib.import_module("ale_py"))
