"""Gymnasium's vector environments, of which the second word is one.

vector_entry_point   an environment's own, written with NumPy
sync                 SyncVectorEnv: one environment after the other, in this process
async                AsyncVectorEnv: a process for each, with observations in shared memory; CPU time is that of all
"""

# Gymnasium is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import sys
from typing import Any

import gymnasium
import numpy as np

from drivetrain.bench.serving import NotOffered
from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.scene import Scene

MOST_STEPS = 16
MOST_ENVS = {
    "vector_entry_point": 10**6,
    "sync": 1024,  # a step of 16,384 of them takes longer than a slice
    "async": 64,  # each is a process
}


def vectorized(scene: Scene, mode: str) -> Simulator:
    """Steps of a `gymnasium.make_vec`, with actions that are at hand.

    Args:
        scene: Of an environment that Gymnasium has.
        mode: Gymnasium's `vectorization_mode`.
    """
    if scene.num_envs > MOST_ENVS[mode]:
        raise NotOffered(f"more than {MOST_ENVS[mode]:,} environments are not asked of it")
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
    serve_simulator(lambda scene: vectorized(scene, sys.argv[2]))
