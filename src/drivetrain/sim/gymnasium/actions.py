"""Batches of actions held against their space, by something that is made once: a short step is mostly such checks."""

# What callers give is anything.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import Tree
from drivetrain.sim.engines.arrays import on_host

Array = npt.NDArray[Any]
Check = Callable[[Any], Tree]
"""Actions -> arrays that have the batched space's shape, with integers in range.

Real numbers beyond a bound pass: what they do is the environment's to say, and ours clip. NaN does not pass. What does
not fit is `InvalidInput`, which says what was expected, and the first environment whose action is not.
"""


def check_of(space: gymnasium.Space[Any], what: str = "actions") -> Check:
    """The check of actions of a batched space, which errors call `what`."""
    if isinstance(space, spaces.Dict):
        return Named(what, {name: check_of(space[name], f"{what}[{name!r}]") for name in space.spaces})
    if isinstance(space, spaces.Tuple):
        return Several(what, tuple(check_of(part, f"{what}[{k}]") for k, part in enumerate(space.spaces)))
    if isinstance(space, spaces.MultiDiscrete):
        return Indices(what, int(np.min(space.nvec)), space.shape)
    assert isinstance(space, spaces.Box)
    return Numbers(what, space)


@dataclass(frozen=True)
class Named:
    """Of a dictionary of spaces."""

    what: str
    parts: Mapping[str, Check]

    def __call__(self, actions: Any) -> Tree:
        """See `Check`."""
        if not isinstance(actions, Mapping) or set(actions) != set(self.parts):
            raise InvalidInput(f"{self.what}: expected a dictionary of {', '.join(self.parts)}, got {actions!r}")
        return {name: check(actions[name]) for name, check in self.parts.items()}


@dataclass(frozen=True)
class Several:
    """Of a tuple of spaces."""

    what: str
    parts: tuple[Check, ...]

    def __call__(self, actions: Any) -> Tree:
        """See `Check`."""
        if not isinstance(actions, tuple) or len(actions) != len(self.parts):
            raise InvalidInput(f"{self.what}: expected a tuple of {len(self.parts)}, got {actions!r}")
        return tuple(check(each) for check, each in zip(self.parts, actions, strict=True))


@dataclass(frozen=True)
class Indices:
    """Of a choice for each environment, 0 to n - 1."""

    what: str
    n: int
    shape: tuple[int, ...]

    def __call__(self, actions: Any) -> Array:
        """See `Check`."""
        array, n = on_host(self.what, actions), self.n
        if array.shape != self.shape or array.dtype.kind not in "iu":
            raise InvalidInput(
                f"{self.what}: expected {self.shape[0]} integers from 0 to {n - 1}, got "
                f"{array.dtype.name}{list(array.shape)}"
            )
        unsigned = array.view(f"u{array.dtype.itemsize}")  # where what is below 0 is large: one pass in place of two
        most = n if n <= 128 else min(n, np.iinfo(array.dtype).max + 1)
        if array.size and unsigned.max() >= most:
            index = int(np.argmax((array < 0) | (array >= n)))
            raise InvalidInput(
                f"{self.what}: expected integers from 0 to {n - 1}, got {array[index]} for environment {index}"
            )
        return array.astype(np.int32, copy=False)


@dataclass(frozen=True)
class Numbers:
    """Of arrays of numbers for each environment; of whole ones, within their bounds."""

    what: str
    space: spaces.Box

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Of the space."""
        return np.dtype(self.space.dtype)

    def __call__(self, actions: Any) -> Array:
        """See `Check`."""
        array, dtype, space = on_host(self.what, actions), self.dtype, self.space
        if array.shape != space.shape or array.dtype.kind not in ("b" if dtype.kind == "b" else "fiu"):
            raise InvalidInput(
                f"{self.what}: expected {dtype.name}{list(space.shape)}, one row for each environment, got "
                f"{array.dtype.name}{list(array.shape)}"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = array.astype(dtype, copy=False)
        same = np.isfinite(numbers) if dtype.kind == "f" else numbers == array
        if not same.all():
            place = tuple(np.argwhere(~same)[0])
            kind = "finite numbers" if dtype.kind == "f" else f"whole numbers that fit {dtype.name}"
            raise InvalidInput(f"{self.what}: expected {kind}, got {array[place]} for environment {place[0]}")
        inside = dtype.kind not in "iu" or (numbers >= space.low) & (numbers <= space.high)
        if not np.all(inside):
            place = tuple(np.argwhere(~np.asarray(inside))[0])
            low, high = space.low[place], space.high[place]
            raise InvalidInput(
                f"{self.what}: expected integers from {low} to {high}, got {numbers[place]} for environment {place[0]}"
            )
        return numbers
