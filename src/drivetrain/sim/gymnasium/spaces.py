"""Spaces of the simulators as Gymnasium's, and batches of actions held against them."""

# JAX is typed in part, gymnax's spaces are known by their attributes.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, cast

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import Environment, Tree, name_of
from drivetrain.sim.engines.arrays import on_host
from drivetrain.sim.random import Generator, first_key
from drivetrain.sim.spaces import Box, parts_of
from drivetrain.sim.trace import Once, abstract
from drivetrain.sim.transition import first
from drivetrain.sim.untraceable import asked
from drivetrain.sim.varying import Varied

Space = gymnasium.Space[Any]
Array = npt.NDArray[Any]
MOST_EXACT = 2**24
"""Integers below are all among the numbers of float32."""


def single_spaces(
    env: Environment, params: Tree, differing: Varied | None, generator: Generator
) -> tuple[Space, Space]:
    """Of observations and actions of one environment; integer actions in Gymnasium's type, so that spaces are equal.

    Raises:
        InvalidInput: See `space_of`.
        CompileError: The environment cannot be traced.
    """
    one = params if differing is None else differing.of(0)
    words, wide = jax.ShapeDtypeStruct((2,), np.uint32), np.dtype(np.int64)
    once = cast("Environment", Once(env, one))
    obs, _ = abstract(env, "reset", lambda w: first(once, one, first_key(w, generator))[0], words)
    drawn, _ = abstract(env, "action_space", lambda w: env.action_space(one).sample(jax.random.wrap_key_data(w)), words)
    action = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, wide) if x.dtype.kind in "iu" else x, drawn)
    return (
        space_of("observation", widest(env, "observation_space", params, differing), obs),
        space_of("action", widest(env, "action_space", params, differing), action),
    )


def one_by_one(space: Callable[[Tree], Any], differing: Varied) -> tuple[Any, Any]:
    """The bounds of each environment, [num_envs, ...]."""
    every = [space(differing.of(number)) for number in range(differing.num_envs)]
    low, high = (np.stack([np.broadcast_to(getattr(one, end), one.shape) for one in every]) for end in ("low", "high"))
    return low, high


def widest(env: Environment, which: str, params: Tree, differing: Varied | None) -> Any:
    """The space of every environment where parameters differ: bounds that hold for all of them."""
    space: Callable[[Tree], Any] = getattr(env, which)
    one = asked(name_of(env), which, lambda: space(params if differing is None else differing.of(0)))
    return one if differing is None else asked(name_of(env), which, lambda: widened(one, space, differing))


def widened(one: Any, space: Callable[[Tree], Any], differing: Varied) -> Any:
    """The space of the first environment, or a part of it, with bounds that hold for all; `space` gives each its."""
    parts = parts_of(one)
    if parts is not None:
        names = list(parts) if isinstance(parts, Mapping) else list(range(len(parts)))
        each = [
            widened(parts[name], lambda params, name=name: parts_of(space(params))[name], differing) for name in names
        ]
        return dict(zip(names, each, strict=True)) if isinstance(parts, Mapping) else tuple(each)
    if not hasattr(one, "low"):
        return one

    def bounds(rows: tuple[Any, ...]) -> tuple[Any, Any]:
        here = space(differing.params(rows))
        low, high = (jnp.broadcast_to(jnp.asarray(x, jnp.float32), here.shape) for x in (here.low, here.high))
        return low, high

    low: Any = None
    high: Any = None
    is_exact = False
    with contextlib.suppress(Exception):  # NumPy's functions and float() take no rows of JAX's
        low, high = jax.vmap(bounds)(differing.rows)
        is_exact = not np.issubdtype(one.dtype, np.integer) or max(np.max(np.abs(x)) for x in (low, high)) < MOST_EXACT
    if not is_exact:
        low, high = one_by_one(space, differing)
    return Box(np.min(low, axis=0), np.max(high, axis=0), tuple(one.shape), one.dtype)


def space_of(what: str, space: Any, shapes: Tree) -> Space:
    """Gymnasium's space for one of `sim.spaces` or of gymnax.

    Args:
        what: Names it in errors.
        space: Has `n`, `nvec`, or `low` and `high`, or is a dictionary or a sequence of such, or has one in `spaces`.
        shapes: Of what is really given: arrays or `jax.ShapeDtypeStruct`. Its types are taken, because gymnax's
            spaces often declare others.

    Raises:
        InvalidInput: Gymnasium has no space like it, or what is given has another structure or shape.
    """
    parts = parts_of(space)
    if parts is not None:
        return space_of_several(what, parts, shapes)
    if not hasattr(shapes, "dtype"):
        raise InvalidInput(
            f"{what}: expected one array for the space {space!r}, got a {type(shapes).__name__}; give a dictionary or "
            "a tuple of drivetrain.sim.spaces, one for each part"
        )
    shape, dtype = tuple(shapes.shape), np.dtype(shapes.dtype)
    if hasattr(space, "n"):
        if shape or dtype.kind not in "iu":
            raise InvalidInput(f"{what}: its space is discrete, expected one integer, got {dtype.name}{list(shape)}")
        return spaces.Discrete(int(space.n), dtype=counting(dtype, int(space.n)))
    if hasattr(space, "nvec"):
        nvec = np.asarray(space.nvec, np.int64)
        if nvec.shape != shape or dtype.kind not in "iu":
            expected = f"expected integers of the shape {nvec.shape}"
            raise InvalidInput(f"{what}: its space is multi-discrete, {expected}, got {dtype.name}{list(shape)}")
        return spaces.MultiDiscrete(nvec, dtype=counting(dtype, int(nvec.max(initial=0))))
    if hasattr(space, "low") and hasattr(space, "high"):
        if tuple(space.shape) != shape:
            raise InvalidInput(f"{what}: its space says shape {tuple(space.shape)}, and it has {shape}")
        low, high = bound(space.low, shape, dtype, np.ceil), bound(space.high, shape, dtype, np.floor)
        try:
            return spaces.Box(low, high, shape, cast("Any", dtype.type))
        except ValueError as error:  # a bound is no number, or the type none of NumPy's
            raise InvalidInput(f"{what}: Gymnasium has no such Box: {error}; give it another one") from error
    raise InvalidInput(
        f"{what}: expected a space with `n`, with `nvec`, with `low` and `high`, or with `spaces`, got {space!r}; give "
        "one of drivetrain.sim.spaces"
    )


def counting(dtype: np.dtype[Any], n: int) -> type[np.integer[Any]]:
    """A type that holds the number of choices itself, which Gymnasium keeps in it: 256 is more than uint8 has."""
    return cast("type[np.integer[Any]]", dtype.type) if n <= np.iinfo(dtype).max else np.int64


def space_of_several(what: str, parts: Any, shapes: Tree) -> Space:
    """A dictionary or a tuple of spaces."""
    if isinstance(parts, Mapping) and isinstance(shapes, Mapping) and set(parts) == set(shapes):
        return spaces.Dict({name: space_of(f"{what}[{name!r}]", parts[name], shapes[name]) for name in parts})
    if isinstance(shapes, tuple) and not isinstance(parts, Mapping) and len(shapes) == len(parts):
        pairs = enumerate(zip(parts, shapes, strict=True))
        return spaces.Tuple([space_of(f"{what}[{k}]", part, shape) for k, (part, shape) in pairs])
    raise InvalidInput(f"{what}: expected a dictionary or tuple of {len(parts)} parts, as its space says, got {shapes}")


def bound(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], rounded: Callable[[Array], Array]) -> Array:
    """A bound for every element, within what the type holds."""
    numbers = np.asarray(value)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        whole = np.asarray(rounded(numbers) if numbers.dtype.kind == "f" else numbers, object)
        numbers = np.clip(whole, int(limits.min), int(limits.max))  # no float is the largest int64
    elif dtype.kind == "b":
        numbers = np.clip(numbers, 0, 1)  # any other number would be True
    with np.errstate(over="ignore"):  # beyond a float is none
        return np.broadcast_to(np.asarray(numbers, dtype), shape).copy()


def check_index(space: Space, action: Any) -> None:
    """Refuse a discrete action of ONE environment that its space has not; of others a batch says more.

    Raises:
        InvalidInput: Says what was expected.
    """
    if isinstance(space, spaces.Discrete):
        index = on_host("action", action)
        if index.shape or index.dtype.kind not in "iu" or not 0 <= index < space.n:
            raise InvalidInput(f"action: expected an integer from 0 to {space.n - 1}, got {action!r}")
