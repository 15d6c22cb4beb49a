"""Our engine `native` under `jax.jit`, called from Python once for every K steps, its state donated."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

import jax

from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.peers.ours_in_scan import CALLS, opened
from drivetrain.bench.sim.scene import Scene


def simulator(scene: Scene) -> Simulator:
    """Calls that go on from where the last one left."""
    rollout, state, rows = opened(scene, "native")
    program, actions = jax.jit(rollout, donate_argnums=0), rows[0]

    def run() -> int:
        nonlocal state
        for _ in range(CALLS):
            state, _ = program(state, actions)
        jax.block_until_ready(state)
        return CALLS * scene.num_envs * scene.num_steps

    return run


if __name__ == "__main__":
    serve_simulator(simulator)
