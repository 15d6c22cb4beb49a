"""What `sim.check_env` learns by playing: whether observations lie in their space, and who resets."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable, Mapping
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.sim.api import Environment, Tree, name_of
from drivetrain.sim.held_keys import as_words
from drivetrain.sim.spaces import parts_of
from drivetrain.sim.transition import first, select, strong
from drivetrain.sim.untraceable import asked

NUM_ENVS = 16
SLACK = 1e-5
"""Relative: a cosine of 1 + 1e-7 lies inside ±1."""
MOST_ASKED = 64
"""Observations that a space without bounds of its own is asked about, one by one."""


def play(env: Environment, params: Tree, num_steps: int, seed: int) -> list[str]:
    """Faults that show in 16 environments with random actions; each restarts from where it started."""
    space = asked(name_of(env), "observation_space", lambda: env.observation_space(params))
    reset = jax.jit(jax.vmap(lambda key: first(env, params, key)))

    def one(key: jax.Array, carried: Any, start: Tree) -> Any:
        state, has_ended, end = carried
        key_step, key_action = jax.random.split(key)
        action = env.action_space(params).sample(key_action)
        obs, after, _, terminated, truncated, _ = env.step(key_step, state, action, params)
        ended, after = jnp.asarray(terminated | truncated, bool), strong(after)
        end = select(ended & ~has_ended, (key_step, state, after), end)  # the first; all would be as many states
        return (select(ended, start, after), has_ended | ended, end), as_words(strong(obs))

    @jax.jit
    def steps(starts: Tree, keys: jax.Array) -> Any:
        every, none = jax.vmap(one), (jax.random.split(jax.random.key(0), NUM_ENVS), starts, starts)
        begun = starts, jnp.zeros(NUM_ENVS, bool), none
        return jax.lax.scan(lambda at, key: every(jax.random.split(key, NUM_ENVS), at, starts), begun, keys)

    key_start, key_steps = jax.random.split(jax.random.key(seed))
    start_obs, starts = reset(jax.random.split(key_start, NUM_ENVS))
    (_, has_ended, ends), obs = steps(starts, jax.random.split(key_steps, num_steps))
    starting = jax.tree.map(lambda x: x[None], as_words(start_obs))
    faults = asked(
        name_of(env),
        "observation_space",
        lambda: outside(space, "reset", starting) or outside(space, "step", obs),
    )
    rows = np.resize(np.flatnonzero(has_ended), NUM_ENVS)
    if has_ended.any() and resets_itself(reset, *jax.tree.map(lambda x: x[rows], ends)):
        faults.append(
            "`step` resets by itself: where an episode ends it gives the state of a new one; give the state in which "
            "it ended, and leave resets to `sim.compile(..., autoreset=...)`"
        )
    return faults


def resets_itself(reset: Callable[[jax.Array], Any], keys: jax.Array, before: Tree, after: Tree) -> bool:
    """Whether every one of 16 steps that ended an episode gave, of its own key or a part of its split, a start.

    Where all starts are alike nobody can tell: an episode may end where it began.
    """
    parts = jax.vmap(jax.random.split)(keys)
    starts = [reset(used)[1] for used in (keys, parts[:, 0], parts[:, 1])]
    if np.all(equal(starts[0], starts[1]) & equal(starts[0], starts[2])):
        return False
    is_start = [equal(after, start) for start in starts]
    return bool(np.all(np.any(is_start, axis=0) & ~equal(after, before)))


def equal(x: Tree, y: Tree) -> Any:
    """bool[16]: which environments have the same numbers in two pytrees."""
    same = np.ones(NUM_ENVS, bool)
    for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True):
        same &= np.all(np.reshape(numbers(a) == numbers(b), (NUM_ENVS, -1)), axis=1)
    return same


def numbers(x: jax.Array) -> Any:
    """A leaf as NumPy's; keys as their words."""
    return np.asarray(as_words(x))


def outside(space: Any, what: str, obs: Tree, place: str = "") -> list[str]:
    """Observations, leading axes [num_steps, 16], that the declared space does not hold: the first fault.

    Args:
        place: Of a part in the whole observation, as ['x'].
    """
    parts = parts_of(space)
    if parts is not None:
        return outside_parts(parts, what, obs, place)
    if hasattr(obs, "shape") and all(hasattr(space, name) for name in ("low", "high", "shape")):
        return outside_box(space, what, np.asarray(obs), place)
    if not hasattr(space, "contains"):
        return [
            f"observation_space(params){place} gives a {type(space).__name__} without `contains(obs)`, and without "
            "bounds (low, high, shape): give one of drivetrain.sim.spaces, or a dictionary or a tuple of them where an "
            "observation has several parts"
        ]
    flat = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), obs)
    num = jax.tree.leaves(flat)[0].shape[0]
    for k in np.linspace(0, num - 1, min(num, MOST_ASKED)).astype(int):
        each = jax.tree.map(lambda x, k=k: x[k], flat)
        if not np.all(space.contains(each)):
            return [f"an observation of `{what}`, {each}, is not in observation_space{place}: change one or the other"]
    return []


def outside_parts(parts: Any, what: str, obs: Tree, place: str) -> list[str]:
    """The same, for observations in a dictionary, or in a tuple."""
    named, kind = isinstance(parts, Mapping), "dictionary" if isinstance(parts, Mapping) else "tuple"
    expected = list(parts) if named else list(range(len(parts)))
    got = list(obs) if isinstance(obs, Mapping) else list(range(len(obs))) if isinstance(obs, list | tuple) else None
    if got is None or isinstance(obs, Mapping) != named or set(got) != set(expected):
        given = jax.tree.structure(obs) if got is None else got
        return [
            f"observations of `{what}`{place and f' at {place}'} have the parts {given}, and observation_space says a "
            f"{kind} of {expected}: declare the parts that are given"
        ]
    faults = (outside(parts[name], what, cast("Any", obs)[name], f"{place}[{name!r}]") for name in expected)
    return next((fault for fault in faults if fault), [])


def outside_box(space: Any, what: str, obs: Any, place: str) -> list[str]:
    """The same, for arrays between two bounds, all at once."""
    if obs.shape[2:] != tuple(space.shape):
        return [
            f"observations of `{what}` have the shape {obs.shape[2:]}, and observation_space{place} says "
            f"{tuple(space.shape)}: declare the shape that is given"
        ]
    try:
        low, high = (np.broadcast_to(np.asarray(bound, np.float64), obs.shape[2:]) for bound in (space.low, space.high))
    except ValueError:
        shapes = f"{np.shape(space.low)} and {np.shape(space.high)}"
        return [
            f"observation_space{place} has bounds of the shapes {shapes}, and says {tuple(space.shape)}: give "
            "numbers, or arrays of that shape"
        ]
    slack_low, slack_high = (np.where(np.isfinite(b), SLACK * (1 + abs(b)), 0) for b in (low, high))
    inside = (obs >= low - slack_low) & (obs <= high + slack_high)  # NaN is nowhere inside
    if inside.all():
        return []
    step, env, *index = (int(k) for k in np.argwhere(~inside)[0])
    element = tuple(index)
    return [
        f"an observation of `{what}` is outside observation_space{place}: expected {low[element]:g} to "
        f"{high[element]:g} at {index}, got {obs[step, env][element]:g} (step {step}, environment {env} of 16): widen "
        "the space, or clip"
    ]
