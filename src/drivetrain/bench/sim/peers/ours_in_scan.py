"""Our engines inside a program of JAX: `CALLS` calls of one rollout in a `lax.scan`, its state donated.

Settings: as `ours`; what is recorded comes back stacked, as a scan gives it.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import functools
from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.peers.ours import compiled, engine_asked, random_actions
from drivetrain.bench.sim.scene import Scene
from drivetrain.sim.api import Engine, Rollout

CALLS = 1000
"""Of the rollout, in one measured call; whoever calls from Python makes as many."""


def opened(scene: Scene, engine: Engine) -> tuple[Rollout, Any, Any]:
    """A rollout, a first state in JAX's own memory, and actions [CALLS, K, N]."""
    rollout = compiled(scene, engine)
    actions = random_actions(rollout.env, rollout.params, CALLS * scene.num_steps, scene.num_envs)
    rows = jax.tree.map(lambda x: x.reshape(CALLS, scene.num_steps, *x.shape[1:]), actions)
    return rollout, jax.tree.map(lambda x: jnp.array(x, copy=True), rollout.reset(seed=0)), rows


def simulator(scene: Scene, engine: Engine) -> Simulator:
    """A program that goes on from where it stands."""
    rollout, state, rows = opened(scene, engine)

    @functools.partial(jax.jit, donate_argnums=0)
    def program(state: Any, rows: Any) -> Any:
        return jax.lax.scan(rollout, state, rows)

    def run() -> int:
        nonlocal state
        state, trajectory = program(state, rows)
        jax.block_until_ready((state, trajectory))
        return CALLS * scene.num_envs * scene.num_steps

    return run


if __name__ == "__main__":
    serve_simulator(lambda scene: simulator(scene, engine_asked()))
