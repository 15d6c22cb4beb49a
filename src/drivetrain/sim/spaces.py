"""Spaces of actions and observations, in JAX: what to draw from, and what lies inside."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt


def numbers(x: Any) -> npt.NDArray[Any] | None:
    """As an array; None where it is none of numbers, as a dictionary or rows of several lengths."""
    try:
        array = np.asarray(x)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" else None


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
        return array is not None and array.shape == () and 0 <= int(array) < self.n


@dataclass(frozen=True)
class Box:
    """Arrays of a shape between two bounds, both inside."""

    low: Any
    high: Any
    shape: tuple[int, ...]
    dtype: Any = jnp.float32

    def sample(self, key: jax.Array) -> jax.Array:
        """Uniform; where a bound is infinite or as large as floats go, within 1 of the other or of 0."""
        low, high = (jnp.broadcast_to(jnp.asarray(x, jnp.float32), self.shape) for x in (self.low, self.high))
        low = jnp.maximum(low, jnp.where(high < 1e30, high, 1.0) - 1e6)
        high = jnp.minimum(high, low + 2e6)
        return jax.random.uniform(key, self.shape, jnp.float32, low, high).astype(self.dtype)

    def contains(self, x: Any) -> bool:
        """Whether x has the shape and lies between the bounds."""
        array = numbers(x)
        if array is None:
            return False
        inside = (array >= np.asarray(self.low)) & (array <= np.asarray(self.high))
        return array.shape == self.shape and int(np.sum(inside)) == prod(self.shape)
