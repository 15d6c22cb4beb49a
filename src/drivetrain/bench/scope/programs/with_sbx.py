"""SBX: Stable-Baselines3's loop around learners in JAX; compilation is part of the work."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import sys

import sbx
import torch

from drivetrain.bench.scope.window import window

OFF_POLICY = ("DQN", "SAC", "TD3", "DDPG")
LIKE_SB3 = {algo: {"net_arch": [400, 300]} for algo in ("DDPG", "TD3")}
"""Networks as large as Stable-Baselines3's; SBX's own have two layers of 256."""


def main(algo: str, env: str, num_steps: int) -> None:
    """Train; off-policy algorithms learn from step 100 on in all versions."""
    torch.set_num_threads(1)  # SBX keeps Stable-Baselines3's replay, which goes through torch
    settings = {"learning_starts": 100} if algo in OFF_POLICY else {}
    model = getattr(sbx, algo)("MlpPolicy", env, seed=1, policy_kwargs=LIKE_SB3.get(algo), **settings)
    with window():
        model.learn(num_steps)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
