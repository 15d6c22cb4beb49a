"""EnvPool: C++ environments in a thread pool, in its synchronous mode.

Settings: `num_threads` as the scene says, one where it is one; its documentation advises the synchronous mode for
a fixed batch, and as many threads as cores.
"""

# EnvPool ships no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportMissingImports=false

from typing import Any

import envpool
import numpy as np

from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.scene import Scene

MOST_STEPS = 16


def opened(scene: Scene) -> Any:
    """The pool of a scene."""
    return envpool.make(scene.env, env_type="gymnasium", num_envs=scene.num_envs, num_threads=scene.num_threads, seed=0)


def simulator(scene: Scene) -> Simulator:
    """Steps with actions that are at hand."""
    pool = opened(scene)
    pool.reset()
    num_steps = max(1, min(MOST_STEPS, 4096 // scene.num_envs))
    number: int = pool.action_space.n
    actions = np.random.default_rng(0).integers(0, number, (num_steps, scene.num_envs)).astype(np.int32)

    def run() -> int:
        for action in actions:
            pool.step(action)
        return num_steps * scene.num_envs

    return run


if __name__ == "__main__":
    serve_simulator(simulator)
