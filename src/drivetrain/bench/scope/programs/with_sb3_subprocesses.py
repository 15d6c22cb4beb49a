"""Stable-Baselines3 with every environment in a process of its own."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import sys

import stable_baselines3
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

from drivetrain.bench.scope.window import window


def main(algo: str, env: str, num_steps: int, num_processes: int) -> None:
    """Train; all environments together take as many steps per rollout as one does by default."""
    torch.set_num_threads(1)
    envs = make_vec_env(env, n_envs=num_processes, seed=1, vec_env_cls=SubprocVecEnv)
    model = getattr(stable_baselines3, algo)("MlpPolicy", envs, n_steps=2048 // num_processes, seed=1)
    with window():
        model.learn(num_steps)
    envs.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
