"""Gymnasium's vector environment of an environment's own, written with NumPy: its `vector_entry_point`.

The other vector environments of Gymnasium are opened by the same function.
"""

# Gymnasium is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

import gymnasium
import numpy as np

from drivetrain.bench.serving import NotOffered
from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.scene import Scene

MOST_STEPS = 16


def vectorized(scene: Scene, mode: str, most_envs: int) -> Simulator:
    """Steps of a `gymnasium.make_vec`, with actions that are at hand.

    Args:
        scene: Of an environment that Gymnasium has.
        mode: Gymnasium's `vectorization_mode`.
        most_envs: More than so many are not asked of it.
    """
    if scene.num_envs > most_envs:
        raise NotOffered(f"more than {most_envs:,} environments are not asked of it")
    venv: Any = gymnasium.make_vec(scene.env, num_envs=scene.num_envs, vectorization_mode=mode)
    return stepping(venv, scene.num_envs)


def stepping(venv: Any, num_envs: int) -> Simulator:
    """Steps of a vector environment of Gymnasium's form, with actions that are at hand."""
    venv.reset(seed=0)
    num_steps = max(1, min(MOST_STEPS, 4096 // num_envs))
    number: int = venv.single_action_space.n
    actions = np.random.default_rng(0).integers(0, number, (num_steps, num_envs))

    def run() -> int:
        for action in actions:
            venv.step(action)
        return num_steps * num_envs

    return run


if __name__ == "__main__":
    serve_simulator(lambda scene: vectorized(scene, "vector_entry_point", 10**6))
