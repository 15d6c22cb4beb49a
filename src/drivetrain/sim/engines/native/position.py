"""Places in arrays, as sums of loop variables and constants."""

from collections.abc import Sequence

import numpy as np

from drivetrain.sim.ir.build import row_major
from drivetrain.sim.ir.program import Value


class Index:
    """A position: constants and loop variables with factors."""

    def __init__(self, terms: dict[str, int] | None = None, start: int = 0) -> None:
        """Start + sum of variable times factor."""
        self.terms, self.start = terms or {}, start

    def __add__(self, other: "Index") -> "Index":
        terms = dict(self.terms)
        for name, factor in other.terms.items():
            terms[name] = terms.get(name, 0) + factor
        return Index(terms, self.start + other.start)

    def times(self, factor: int) -> "Index":
        """All of it times a number."""
        return Index({name: old * factor for name, old in self.terms.items()}, self.start * factor)

    def __str__(self) -> str:
        parts = [name if factor == 1 else f"{name} * {factor}" for name, factor in self.terms.items() if factor]
        return " + ".join(parts + ([str(self.start)] if self.start or not parts else []))


Position = Sequence[Index] | Index
"""One index per dimension, or one into the flat array."""


def flat(value: Value, position: Position) -> Index:
    """A position as one index into the flat array."""
    if isinstance(position, Index):
        return position
    return sum((part.times(s) for part, s in zip(position, row_major(value.shape), strict=True)), Index())


def unflat(value: Value, place: int) -> list[Index]:
    """A flat position as an index per dimension."""
    return [Index(start=int(part)) for part in np.unravel_index(place, value.shape)]
