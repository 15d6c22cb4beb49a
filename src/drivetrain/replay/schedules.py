"""Numbers that change over a run, such as the exponents of prioritized replay.

A schedule is a callable: `beta(step)` is the value at that step, a float. Steps count whatever the
caller counts: updates, environment steps, calls.

    beta = Linear(start=0.4, end=1.0, num_steps=100_000)
    sample = replay.sample(256, beta=beta(num_updates))
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

from drivetrain.core.errors import InvalidInput
from drivetrain.replay.arguments import real_number, require_int

_LEAST = sys.float_info.min  # below, quotients lose digits

Schedule = Callable[[int], float]
"""A value for each step; any function will do."""


def _require_finite(**values: float) -> None:
    for name, value in values.items():
        if not math.isfinite(real_number(value)):
            raise InvalidInput(f"{name}: expected a finite number, got {value!r}")


def _require_step(step: float) -> None:
    if not real_number(step) >= 0:
        raise InvalidInput(f"step: expected a number >= 0, got {step!r}")


@dataclass(frozen=True)
class Constant:
    """The same value at every step."""

    value: float

    def __post_init__(self) -> None:
        _require_finite(value=self.value)

    def __call__(self, step: float) -> float:
        """The value at `step`."""
        _require_step(step)
        return float(self.value)


@dataclass(frozen=True)
class Linear:
    """From `start` at step 0 straight to `end` at step `num_steps`, and `end` from then on."""

    start: float
    end: float
    num_steps: int

    def __post_init__(self) -> None:
        _require_finite(start=self.start, end=self.end)
        require_int("num_steps", self.num_steps, least=1)

    def __call__(self, step: float) -> float:
        """The value at `step`."""
        _require_step(step)
        fraction = float(step) / self.num_steps
        if fraction >= 1:
            return float(self.end)  # exactly: an exponent beyond 1 by rounding would be refused
        start, end = float(self.start), float(self.end)
        return float(start + (end - start) * fraction)


@dataclass(frozen=True)
class Exponential:
    """From `start` at step 0 to `end` at step `num_steps` by a constant factor per step, then `end`.

    Both are positive: start * (end / start)^(step / num_steps).
    """

    start: float
    end: float
    num_steps: int

    def __post_init__(self) -> None:
        _require_finite(start=self.start, end=self.end)
        if not (self.start > 0 and self.end > 0):
            raise InvalidInput(
                f"Exponential: expected start and end > 0, got {self.start!r} and {self.end!r}; use Linear to or from 0"
            )
        require_int("num_steps", self.num_steps, least=1)

    def __call__(self, step: float) -> float:
        """The value at `step`."""
        _require_step(step)
        fraction = float(step) / self.num_steps
        if fraction >= 1:
            return float(self.end)
        start, end = float(self.start), float(self.end)
        if _LEAST <= end / start < math.inf:
            return start * (end / start) ** fraction
        return math.exp((1 - fraction) * math.log(start) + fraction * math.log(end))  # their quotient is no number
