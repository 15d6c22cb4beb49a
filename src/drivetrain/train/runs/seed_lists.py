"""Which seeds are meant: "1..5", "1,2,5", or whole numbers."""

from collections.abc import Iterable

import numpy as np

from drivetrain.core.errors import InvalidInput
from drivetrain.core.words import MOST_DIGITS

_MOST_SEEDS = 1_000
_EXPECTED = "seeds: expected as 1..5 or 1,2,5"


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds that a text lists: "1..5" (both ends included), "1,2,5", or "1..3,7".

    Raises:
        InvalidInput: It is no such list, or too long a one.
    """
    seeds: list[int] = []
    for part in text.split(","):
        ends = [end.strip() for end in part.split("..")]
        if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
            raise InvalidInput(f"{_EXPECTED}, got {text!r}")
        if max(map(len, ends)) > MOST_DIGITS:
            raise InvalidInput(f"{_EXPECTED}, got one of {max(map(len, ends)):,} digits")
        first, last = int(ends[0]), int(ends[-1])
        if first > last:
            raise InvalidInput(f"{_EXPECTED}, the smaller first, got {text!r}: write {last}..{first}")
        if last - first >= _MOST_SEEDS:
            raise InvalidInput(f"{_EXPECTED}, at most {_MOST_SEEDS:,} of them, got {text!r}")
        seeds += range(first, last + 1)
    return checked_seeds(seeds)


def checked_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    """Seeds in their order, if a run can begin from each of them.

    Raises:
        InvalidInput: There are none, or too many, one is no whole number of at least 0, or one is there twice.
    """
    if not isinstance(seeds, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"seeds: expected whole numbers, as range(1, 6), got {seeds!r}")
    found = tuple(seeds)
    if not 1 <= len(found) <= _MOST_SEEDS:
        raise InvalidInput(f"{_EXPECTED}, from one to {_MOST_SEEDS:,} of them, got {len(found):,}")
    for index, seed in enumerate(found):
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"seeds: expected whole numbers of at least 0, got {seed!r}")
        if seed in found[:index]:
            raise InvalidInput(f"seeds: expected each once, got {seed} twice")
    return tuple(int(seed) for seed in found)
