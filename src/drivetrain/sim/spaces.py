"""Spaces of actions and observations, in JAX: what to draw from, and what lies inside."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from drivetrain.sim.random import product

ENDLESS = 1e30
"""Bounds from here on stand for none, as those that are the largest float there is."""


def numbers(x: Any) -> npt.NDArray[Any] | None:
    """As an array; None where it is none of numbers, as a dictionary or rows of several lengths."""
    try:
        array = np.asarray(x)
    except ValueError:
        return None
    if jnp.issubdtype(array.dtype, jnp.floating):
        return array if array.dtype.kind == "f" else array.astype(np.float32)  # bfloat16 is none of NumPy's own
    return array if array.dtype.kind in "biu" else None


def parts_of(space: Any) -> Any:
    """What a space is made of, itself or its `spaces`: a dictionary or a sequence of spaces, else None."""
    parts = getattr(space, "spaces", space)
    return parts if isinstance(parts, Mapping | list | tuple) else None


@dataclass(frozen=True)
class Discrete:
    """0 .. n-1, as int32."""

    n: int

    def sample(self, key: jax.Array) -> jax.Array:
        """One of them, each equally likely."""
        return jax.random.randint(key, (), 0, self.n, jnp.int32)

    def contains(self, x: Any) -> bool:
        """Whether x is one of them."""
        array = numbers(x)
        return array is not None and array.shape == () and array.dtype.kind != "f" and 0 <= int(array) < self.n


@dataclass(frozen=True)
class MultiDiscrete:
    """Several choices at once, each 0 .. n-1 of its own n, as int32 of the shape of `nvec`."""

    nvec: Any
    """The n of each, as (3, 2)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an element."""
        return np.shape(self.nvec)

    def sample(self, key: jax.Array) -> jax.Array:
        """Each by itself, its values equally likely."""
        return jax.random.randint(key, self.shape, 0, np.asarray(self.nvec, np.int32), jnp.int32)

    def contains(self, x: Any) -> bool:
        """Whether x has the shape, and each is one of its own."""
        array = numbers(x)
        if array is None or array.shape != self.shape or array.dtype.kind == "f":
            return False
        return bool(np.all((array >= 0) & (array < np.asarray(self.nvec))))


@dataclass(frozen=True)
class Box:
    """Arrays of a shape between two bounds, both inside."""

    low: Any
    high: Any
    shape: tuple[int, ...]
    dtype: Any = jnp.float32

    def sample(self, key: jax.Array) -> jax.Array:
        """Uniform, integers and Booleans with both bounds.

        Where a bound is infinite or as large as floats go, within 1 of the other, or of 0 where there is no other.
        """
        dtype = jax.dtypes.canonicalize_dtype(self.dtype)
        if jnp.issubdtype(dtype, jnp.floating):
            low, high = (jnp.broadcast_to(jnp.asarray(x, jnp.float32), self.shape) for x in (self.low, self.high))
            low, high = bounded(low, high, jnp.where)
            return jax.random.uniform(key, self.shape, jnp.float32, low, high).astype(dtype)
        return self.whole(key, *whole_bounds(self.low, self.high, dtype), dtype)

    def whole(self, key: jax.Array, low: Any, high: Any, dtype: Any) -> jax.Array:
        """Integers from low to high; the chances of two differ by at most a word in 2^32."""
        words = jax.random.bits(key, self.shape, jnp.uint64 if dtype.itemsize == 8 else jnp.uint32)
        low, high = (jnp.asarray(x).astype(words.dtype) for x in (low, high))
        span = jnp.broadcast_to(high - low + 1, self.shape)  # 0: every word is inside
        scaled = words % jnp.maximum(span, 1) if dtype.itemsize == 8 else product(words, span)[0]
        return (low + jnp.where(span == 0, words, scaled)).astype(dtype)

    def contains(self, x: Any) -> bool:
        """Whether x has the shape and lies between the bounds."""
        array = numbers(x)
        if array is None or array.shape != tuple(self.shape):
            return False
        return bool(np.all((array >= np.asarray(self.low)) & (array <= np.asarray(self.high))))


def bounded(low: Any, high: Any, where: Callable[..., Any]) -> tuple[Any, Any]:
    """Bounds to draw between, where some are none, by NumPy's `where` or JAX's."""
    endless_low, endless_high = low <= -ENDLESS, high >= ENDLESS
    return (
        where(endless_low, where(endless_high, -1, high - 1), low),
        where(endless_high, where(endless_low, 1, low + 1), high),
    )


def whole_bounds(low: Any, high: Any, dtype: Any) -> tuple[Any, Any]:
    """The smallest and the largest integer of a type between two bounds."""
    if not all(isinstance(x, bool | int | float | list | tuple | np.ndarray | np.generic) for x in (low, high)):
        low, high = jnp.asarray(low), jnp.asarray(high)
        if "f" in (low.dtype.kind, high.dtype.kind):
            low, high = bounded(low, high, jnp.where)
            low, high = jnp.ceil(low), jnp.floor(high)
        return low.astype(dtype), high.astype(dtype)
    low, high = np.asarray(low), np.asarray(high)
    if "f" in (low.dtype.kind, high.dtype.kind):
        low, high = bounded(low, high, np.where)
        low, high = np.ceil(low), np.floor(high)
    limits = (0, 1) if dtype.kind == "b" else (int(jnp.iinfo(dtype).min), int(jnp.iinfo(dtype).max))
    low, high = (np.asarray(np.clip(np.asarray(x, object), *limits), dtype) for x in (low, high))
    return low, high
