"""The oracle: JAX's own `vmap` and `scan`, which every other engine is tested against."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxprs_in_params

from drivetrain.core.errors import CompileError
from drivetrain.sim.api import RolloutState, Runner, Settings, Tree
from drivetrain.sim.engines.arrays import checked_value, is_traced
from drivetrain.sim.engines.signature import STEP, Signature
from drivetrain.sim.forked import refuse_after_fork
from drivetrain.sim.ir.importer.importer import source_line
from drivetrain.sim.trace import Traced
from drivetrain.sim.width import Width


def build(traced: Traced, settings: Settings) -> Runner:
    """A jitted scan over steps of a vmap over environments.

    Raises:
        CompileError: A step calls back into Python in a way that `vmap` does not know.
    """
    check_calls_back(traced.jaxpr, traced.name)
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

    signature, width = Signature(traced, settings), Width()

    def call(state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        refuse_after_fork()
        with width.held():
            leaves = signature.flat(state, actions, shared)
            if is_like(state.step, STEP) and all(map(is_like, leaves, signature.inputs)):
                with contextlib.suppress(TypeError, ValueError):  # of JAX, whose words do not name what does not fit
                    return run(state, actions, shared)
            return run(*converted(signature, state, actions, shared))

    return call


def check_calls_back(program: Any, name: str) -> None:
    """Refuse calls into Python of which JAX does not know what they do for several environments."""
    for eqn in program.eqns:
        called, given = eqn.primitive.name, eqn.params
        remedy = ""
        if called == "pure_callback" and given.get("vmap_method") is None:
            remedy = 'give it vmap_method="sequential", or another that fits'
        if called == "io_callback" and given.get("ordered"):
            remedy = "leave out ordered=True"
        if remedy:
            raise CompileError(
                f'{source_line(eqn) or name}: engine "xla" steps all environments at once, and `{called}` as it '
                f"is cannot: {remedy}, or compute it in JAX"
            )
        for inner in jaxprs_in_params(given):
            check_calls_back(inner, name)


def is_like(x: Any, form: Any) -> bool:
    """Whether an array is what was traced: JAX would convert others, which the other engines refuse."""
    return getattr(x, "dtype", None) == form.dtype and x.shape == form.shape


def converted(
    signature: Signature, state: RolloutState, actions: Tree, shared: Tree
) -> tuple[RolloutState, Tree, Tree]:
    """The arguments as JAX takes them.

    Raises:
        InvalidInput: Something has another structure, shape or type.
    """
    env, keys, step, done, action, alike = signature.given(state, actions, shared, checked_value)
    step = step if is_traced(step) else np.uint32(step)
    state = RolloutState(signature.state.tree(env), keys, step, done, None)
    return state, signature.actions.tree(action), signature.shared.tree(alike)
