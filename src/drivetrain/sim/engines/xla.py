"""The oracle: JAX's own `vmap` and `scan`, which every other engine is tested against."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.core.errors import CompileError
from drivetrain.sim.api import RolloutState, Runner, Settings, Tree
from drivetrain.sim.engines.arrays import ENDED, KEY, STEP, checked_inputs, checked_value, is_traced
from drivetrain.sim.forked import refuse_after_fork
from drivetrain.sim.ir.importer.importer import source_line
from drivetrain.sim.trace import Traced


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

    num_envs, num_steps = settings.num_envs, settings.num_steps

    def call(state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        refuse_after_fork()
        alike = fits((state.step, shared), (STEP, traced.shared), ())
        here = fits((state.keys, state.done, state.env), (KEY, ENDED, traced.state), (num_envs,))
        if alike and here and fits(actions, traced.action, (num_steps, num_envs)):
            with contextlib.suppress(TypeError, ValueError):  # of JAX, whose words do not name what does not fit
                return run(state, actions, shared)
        return run(*converted(traced, settings, state, actions, shared))

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
        for value in given.values():
            for inner in value if isinstance(value, tuple | list) else [value]:
                if hasattr(inner, "eqns"):
                    check_calls_back(inner, name)


def fits(given: Tree, expected: Tree, leading: tuple[int, ...]) -> bool:
    """Whether arrays are what was traced: JAX would convert others, which the other engines refuse."""
    leaves, structure = jax.tree.flatten(given)
    forms, wanted = jax.tree.flatten(expected)
    return structure == wanted and all(
        getattr(x, "dtype", None) == form.dtype and x.shape == (*leading, *form.shape)
        for x, form in zip(leaves, forms, strict=True)
    )


def converted(
    traced: Traced, settings: Settings, state: RolloutState, actions: Tree, shared: Tree
) -> tuple[RolloutState, Tree, Tree]:
    """The arguments as JAX takes them.

    Raises:
        InvalidInput: Something has another structure, shape or type.
    """
    given = checked_inputs(traced, settings, state, actions, shared, checked_value)
    env, keys, step, done, action, alike = given
    step = step if is_traced(step) else np.uint32(step)
    env, action, alike = (
        jax.tree.unflatten(jax.tree.structure(tree), leaves)
        for tree, leaves in ((traced.state, env), (traced.action, action), (traced.shared, alike))
    )
    return RolloutState(env, keys, step, done, None), action, alike
