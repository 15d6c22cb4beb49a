"""What threads and processes do at the same time: a bit mask of classes and one of operations, over time.

time lines -> changes, sorted by time -> how many threads are in each class -> mask of each interval -> totals
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.sites import CLASSES
from drivetrain.scope.states import StateSpace

_IDLE = CLASSES.index("idle")
_BITS = 62  # of a mask in one integer


class Overlap(NamedTuple):
    """Time during which exactly these classes and operations were going on somewhere; idle threads count for none."""

    classes: tuple[str, ...]
    operations: tuple[str, ...]
    ns: int
    corrected_ns: float | None
    """Without what recording added; None where no cost is known."""
    low_ns: float | None
    high_ns: float | None


def totals(edges: Sequence[NDArray[Any]], states: Sequence[NDArray[np.int32]], space: StateSpace) -> dict[int, float]:
    """Time by mask: classes are its low bits, operations those above.

    Args:
        edges: Per thread when its states change; all from the same time to the same time.
        states: Per thread its states, one fewer.
        space: Of them.
    """
    if not len(edges):
        return {}
    if len(edges) == 1:
        return _of_one(edges[0], states[0], space)
    time_ns, before, after = _changes(edges, states)
    words = _words(before, after, space)
    masks = [word.mask[:-1] for word in words]
    if len(words) == 1:
        found, place = np.unique(masks[0], return_inverse=True)
        rows = found[:, np.newaxis]
    else:
        rows, place = np.unique(np.stack(masks, axis=1), axis=0, return_inverse=True)
    spent = np.bincount(place.ravel(), np.diff(time_ns))
    codes = [sum(map(_Word.spread, words, row)) for row in rows.tolist()]
    return {code: ns for code, ns in zip(codes, spent.tolist(), strict=True) if ns}


def _of_one(edge_ns: NDArray[Any], state: NDArray[np.int32], space: StateSpace) -> dict[int, float]:
    """Nobody is beside it: each state has a mask of its own, whatever their number, less phases."""
    codes, place = np.unique(state, return_inverse=True)
    found: dict[int, float] = defaultdict(float)
    for code, ns in zip(codes.tolist(), np.bincount(place, np.diff(edge_ns)).tolist(), strict=True):
        found[mask_of(code, space)] += ns
    return {code: ns for code, ns in found.items() if ns}


def _changes(
    edges: Sequence[NDArray[Any]], states: Sequence[NDArray[np.int32]]
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int32]]:
    """Times at which some thread changes its state, with the state before and after; -1 for none."""
    time_ns = np.concatenate(edges)
    nothing = np.array([-1], np.int32)
    before = np.concatenate([np.concatenate([nothing, state]) for state in states])
    after = np.concatenate([np.concatenate([state, nothing]) for state in states])
    order = np.argsort(time_ns, kind="stable")
    return time_ns[order], before[order], after[order]


class _Word(NamedTuple):
    """Some bits of masks, packed into integers."""

    bits: list[int]
    """Which ones, lowest first."""
    mask: NDArray[np.int64]
    """After each change, whether somebody is in what they stand for."""

    def spread(self, mask: int) -> int:
        """A packed mask with its bits where they belong."""
        return sum(1 << self.bits[place] for place in _places(mask))


def _words(before: NDArray[np.int32], after: NDArray[np.int32], space: StateSpace) -> list[_Word]:
    """After each change, which classes (low bits) and operations (above them) somebody is in; of those that occur."""
    classes = [np.where(s < 0, _IDLE, space.class_of(s)) for s in (before, after)]
    operations = [
        np.where(kind == _IDLE, -1, space.operation_of(s)) + len(CLASSES)
        for kind, s in zip(classes, (before, after), strict=True)
    ]
    kinds = [(bit, classes) for bit in range(len(CLASSES)) if bit != _IDLE]
    kinds += [(bit, operations) for bit in np.unique(operations[1]).tolist() if bit >= len(CLASSES)]
    words: list[_Word] = []
    for first in range(0, len(kinds), _BITS):
        mask, part = np.zeros(len(before), np.int64), kinds[first : first + _BITS]
        for place, (bit, (left, entered)) in enumerate(part):
            mask |= _some(entered == bit, left == bit) << place
        words.append(_Word([bit for bit, _ in part], mask))
    return words


def _some(entered: NDArray[np.bool_], left: NDArray[np.bool_]) -> NDArray[np.int64]:
    """1 where at least one thread is in it."""
    return (np.cumsum(entered.astype(np.int8) - left.astype(np.int8), dtype=np.int32) > 0).astype(np.int64)


def mask_of(state: int, space: StateSpace) -> int:
    """The mask of one state by itself."""
    operation, time_class = divmod(state // len(space.phases), len(CLASSES))
    return 0 if time_class == _IDLE else 1 << time_class | 1 << (operation + len(CLASSES))


def names(code: int, space: StateSpace) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Classes and operations of a mask."""
    classes = tuple(name for bit, name in enumerate(CLASSES) if code >> bit & 1)
    return classes, tuple(space.operations[bit] for bit in _places(code >> len(CLASSES)))


def _places(mask: int) -> Iterator[int]:
    """Of the bits that are set, lowest first; of masks with thousands of bits few are."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
