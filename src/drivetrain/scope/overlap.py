"""What threads and processes do at the same time: a bit mask of classes and one of operations, over time.

time lines -> changes, sorted by time -> how many threads are in each class -> mask of each interval -> totals
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.sites import CLASSES
from drivetrain.scope.states import StateSpace

_IDLE = CLASSES.index("idle")


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

    Raises:
        OverflowError: More operations than a mask has bits.
    """
    if len(space.operations) + len(CLASSES) > 62:
        raise OverflowError(f"overlap: at most {62 - len(CLASSES)} operations, got {len(space.operations)}")
    if not len(edges):
        return {}
    time_ns, before, after = _changes(edges, states)
    codes, place = np.unique(_mask(time_ns, before, after, space)[:-1], return_inverse=True)
    spent = np.bincount(place, np.diff(time_ns))
    return {code: ns for code, ns in zip(codes.tolist(), spent.tolist(), strict=True) if ns}


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


def _mask(
    time_ns: NDArray[Any], before: NDArray[np.int32], after: NDArray[np.int32], space: StateSpace
) -> NDArray[np.int64]:
    """After each change, which classes (low bits) and operations (above them) somebody is in."""
    num_phases = len(space.phases)
    mask = np.zeros(len(time_ns), np.int64)
    classes = [np.where(s < 0, _IDLE, s // num_phases % len(CLASSES)) for s in (before, after)]
    for bit in range(len(CLASSES)):
        if bit != _IDLE:
            mask |= _some((classes[1] == bit), (classes[0] == bit)) << bit
    operations = [
        np.where(kind == _IDLE, -1, s // (num_phases * len(CLASSES)))
        for kind, s in zip(classes, (before, after), strict=True)
    ]
    for bit in range(len(space.operations)):
        mask |= _some((operations[1] == bit), (operations[0] == bit)) << (bit + len(CLASSES))
    return mask


def _some(entered: NDArray[np.bool_], left: NDArray[np.bool_]) -> NDArray[np.int64]:
    """1 where at least one thread is in it."""
    return (np.cumsum(entered.astype(np.int8) - left.astype(np.int8), dtype=np.int32) > 0).astype(np.int64)


def mask_of(state: int, space: StateSpace) -> int:
    """The mask of one state by itself."""
    rest = state // len(space.phases)
    operation, time_class = divmod(rest, len(CLASSES))
    return 0 if time_class == _IDLE else 1 << time_class | 1 << (operation + len(CLASSES))


def names(code: int, space: StateSpace) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Classes and operations of a mask."""
    classes = tuple(name for bit, name in enumerate(CLASSES) if code >> bit & 1)
    rest = code >> len(CLASSES)
    return classes, tuple(name for bit, name in enumerate(space.operations) if rest >> bit & 1)
