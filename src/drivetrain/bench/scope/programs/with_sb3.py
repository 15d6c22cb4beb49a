"""Stable-Baselines3 as its documentation shows it."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import sys

import stable_baselines3
import torch

from drivetrain.bench.scope.window import window

OFF_POLICY = ("DQN", "SAC", "TD3", "DDPG")


def main(algo: str, env: str, num_steps: int, device: str = "cpu") -> None:
    """Train; off-policy algorithms learn from step 100 on in all versions."""
    torch.set_num_threads(1)
    settings = {"learning_starts": 100} if algo in OFF_POLICY else {}
    model = getattr(stable_baselines3, algo)("MlpPolicy", env, seed=1, device=device, **settings)
    with window():
        model.learn(num_steps)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
