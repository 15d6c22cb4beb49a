"""The oracle: JAX's own `vmap` and `scan`, which every other engine is tested against."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.sim.api import RolloutState, Runner, Settings, Tree
from drivetrain.sim.trace import Traced


def build(traced: Traced, settings: Settings) -> Runner:
    """A jitted scan over steps of a vmap over environments."""
    every = jax.vmap(traced.step, in_axes=(0, None, 0, 0, 0, None))

    @jax.jit
    def run(state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        def body(carry: Any, actions: Tree) -> Any:
            keys, number, env, done = carry
            env, done, recorded = every(keys, number, env, done, actions, shared)
            return (keys, number + jnp.uint32(1), env, done), recorded

        start = (jnp.asarray(state.keys), jnp.asarray(state.step, jnp.uint32), state.env, jnp.asarray(state.done))
        (keys, number, env, done), recorded = jax.lax.scan(body, start, actions, settings.num_steps)
        return RolloutState(env, keys, number, done, None), recorded

    return run
