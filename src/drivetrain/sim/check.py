"""`sim.check_env`: tells the author of an environment what would go wrong, and what to change.

form ─▶ traced ─▶ results, purity, keys ─▶ played with random actions ─▶ observations, resets
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim.api import Environment, Tree, describe, name_of
from drivetrain.sim.compiler import check_seed, checked
from drivetrain.sim.forked import refuse_after_fork
from drivetrain.sim.gymnax import adapted
from drivetrain.sim.impurities import impurities
from drivetrain.sim.random_play import play
from drivetrain.sim.trace import (
    RESULTS,
    SCALARS,
    STARTS,
    abstract,
    check_info,
    check_same,
    check_scalars,
    told_of_params,
    trace,
)
from drivetrain.sim.transition import strong
from drivetrain.sim.untraceable import check_number
from drivetrain.sim.varying import varied


@jax.transfer_guard_host_to_device("allow")
@jax.debug_key_reuse(False)  # it is asked about below; and playing gives keys again, to see who resets
def check_env(env: Any, params: Tree = None, *, num_steps: int = 300, seed: int = 0) -> None:
    """Say everything that keeps an environment from being a good one, or return in silence.

    Checked are: the form; that it can be traced, with one shape and type per leaf of state and observation;
    that it is pure (a second trace gives the same program; no attribute changes, no clock is read, and no generator
    of random numbers is drawn from); that each key is used once; and, in 16 environments that act at random, that
    observations lie in the declared space and that `step` leaves resets to the engine. What random actions never
    reach is not seen.

    Args:
        env: Anything that `sim.compile` takes.
        params: Of one environment, taken as `sim.compile` takes them; its defaults when None.
        num_steps: Steps to play in each of the 16.
        seed: Of the actions and of the environments.

    Raises:
        InvalidInput: It lacks a method, an argument does not fit, or this process was forked after simulators had used
            JAX.
        CompileError: It does not fit. Of what stops the rest from being checked that one is told, else all
            faults, a line each.
    """
    refuse_after_fork()
    checked(1, num_steps, "xla", (), "disabled", 1)
    check_seed(seed)
    require_form(env)
    whole = cast("Environment", adapted(env))
    params, differing = varied(whole, whole.default_params if params is None else params, 1)
    params = params if differing is None else differing.of(0)
    with told_of_params(whole, params):
        state, action = check_shapes(whole, params)
    faults = impurities(whole, "step", lambda: stepped(whole, params, state, action))
    faults += impurities(whole, "reset", lambda: started(whole, params))
    faults += reused_keys(whole, params, state, action)
    if not faults:
        faults = play(whole, params, num_steps, seed)
    if faults:
        listed = "".join(f"\n- {fault}" for fault in faults)
        raise CompileError(f"{name_of(whole)} is not a good environment yet:{listed}")


def require_form(env: Any) -> None:
    """What `sim.compile` can do without, and an older form of gymnax."""
    if hasattr(env, "step_env") and not hasattr(env, "is_truncated"):
        raise InvalidInput(
            f"env: {name_of(env)} has step_env, and no is_truncated: derive it from gymnax 1.0's Environment, where "
            "`step_env` leaves the time limit to `is_truncated(state, params)`"
        )
    if hasattr(env, "reset") and not hasattr(env, "observation_space"):
        raise InvalidInput(f"env: {name_of(env)} has no observation_space(params): give one of drivetrain.sim.spaces")


def check_shapes(env: Environment, params: Tree) -> tuple[Tree, Tree]:
    """Shapes of state and action, if everything that comes out of `reset` and `step` has the right ones."""
    key = jax.ShapeDtypeStruct((2,), jnp.uint32)
    start, _ = started(env, params)
    check_number(name_of(env), "reset", start, STARTS)
    (obs, state), _ = abstract(env, "reset", lambda w: strong(env.reset(jax.random.wrap_key_data(w), params)), key)
    if not jax.tree.leaves(obs):
        raise CompileError(f"{name_of(env)}: `reset` must give an observation, a number or more, got none: {obs!r}")
    action, _ = abstract(
        env, "action_space", lambda w: env.action_space(params).sample(jax.random.wrap_key_data(w)), key
    )
    results, _ = stepped(env, params, state, action)
    check_number(name_of(env), "step", results, RESULTS)
    check_same(env, "observation", obs, results[0])
    check_kinds(env, dict(zip(RESULTS, results, strict=True)))
    trace(env, params, "same_step", ())
    return state, action


def check_kinds(env: Environment, results: dict[str, Any]) -> None:
    """Reward, terminated and truncated are scalars; the last two Booleans."""
    check_scalars(env, tuple(results.values()))
    for name, wanted, _ in SCALARS:
        x = results[name]
        if np.dtype(x.dtype).kind not in ("fiu" if wanted == "number" else "b"):
            remedy = "convert it" if wanted == "number" else "compare, or use .all(), .any() or .astype(bool)"
            raise CompileError(f"{name_of(env)}: `step` must give {name} as one {wanted}, got {describe(x)}: {remedy}")
    check_info(env, results["info"])


def started(env: Environment, params: Tree) -> tuple[Any, Any]:
    """Shapes of what `reset` gives, and its jaxpr; traced anew each time."""
    key = jax.ShapeDtypeStruct((2,), jnp.uint32)
    return abstract(env, "reset", lambda words: env.reset(jax.random.wrap_key_data(words), params), key)


def stepped(env: Environment, params: Tree, state: Tree, action: Tree) -> tuple[Any, Any]:
    """Shapes of what `step` gives, and its jaxpr; traced anew each time."""

    def step(words: Any, state: Tree, action: Tree) -> Any:
        return env.step(jax.random.wrap_key_data(words), state, action, params)

    return abstract(env, "step", step, jax.ShapeDtypeStruct((2,), jnp.uint32), state, action)


def reused_keys(env: Environment, params: Tree, state: Tree, action: Tree) -> list[str]:
    """The first place of `step` and of `reset` where a key is used that was used before, as JAX finds it."""
    faults: list[str] = []
    for trace_it in (lambda: started(env, params), lambda: stepped(env, params, state, action)):
        try:
            with jax.debug_key_reuse(True):
                trace_it()
        except CompileError as error:
            faults.append(str(error).removeprefix(f"{name_of(env)}: "))
    return faults
