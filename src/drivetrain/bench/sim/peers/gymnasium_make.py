"""Gymnasium's single environment: `gymnasium.make`, wrappers and all, reset when an episode ends."""

# Gymnasium is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

import gymnasium
import numpy as np

from drivetrain.bench.serving import NotOffered
from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.scene import Scene

STEPS_PER_CALL = 1000


def simulator(scene: Scene) -> Simulator:
    """A thousand steps per call; the observations are what a step returns."""
    if scene.num_envs != 1:
        raise NotOffered("a single environment")
    env: Any = gymnasium.make(scene.env)
    env.reset(seed=0)
    actions: list[int] = np.random.default_rng(0).integers(0, env.action_space.n, STEPS_PER_CALL).tolist()

    def run() -> int:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return STEPS_PER_CALL

    return run


if __name__ == "__main__":
    serve_simulator(simulator)
