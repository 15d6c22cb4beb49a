"""What threads and processes do at the same time: a bit mask of classes and one of operations, over time.

time lines -> changes, sorted by time -> how many threads are in each class -> mask of each interval -> totals
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.sites import CLASSES
from drivetrain.scope.states import StateSpace
from drivetrain.scope.timeline import Timeline

_IDLE = CLASSES.index("idle")


class Overlap(NamedTuple):
    """Time during which exactly these classes and operations were going on somewhere; idle threads count for none."""

    classes: tuple[str, ...]
    operations: tuple[str, ...]
    ns: int


def overlaps(lines: Sequence[Timeline], space: StateSpace) -> list[Overlap]:
    """All combinations that occurred, longest first; their times sum to the session's wall time.

    Raises:
        OverflowError: More operations than a mask has bits.
    """
    if len(space.operations) + len(CLASSES) > 62:
        raise OverflowError(f"overlap: at most {62 - len(CLASSES)} operations, got {len(space.operations)}")
    if not lines:
        return []
    time_ns, before, after = _changes(lines)
    mask = _mask(time_ns, before, after, space)
    totals: dict[int, int] = {}
    codes, place = np.unique(mask[:-1], return_inverse=True)
    for code, ns in zip(codes.tolist(), np.bincount(place, np.diff(time_ns)).astype(np.int64).tolist(), strict=True):
        if ns:
            totals[code] = ns
    found = [Overlap(*_names(code, space), ns) for code, ns in totals.items()]
    return sorted(found, key=lambda overlap: -overlap.ns)


def _changes(lines: Sequence[Timeline]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Times at which some thread changes its state, with the state before and after; -1 for none."""
    time_ns = np.concatenate([line.edge_ns for line in lines])
    nothing = np.array([-1], np.int32)
    before = np.concatenate([np.concatenate([nothing, line.state]) for line in lines])
    after = np.concatenate([np.concatenate([line.state, nothing]) for line in lines])
    order = np.argsort(time_ns, kind="stable")
    return time_ns[order], before[order], after[order]


def _mask(
    time_ns: NDArray[np.int64], before: NDArray[np.int32], after: NDArray[np.int32], space: StateSpace
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


def _names(code: int, space: StateSpace) -> tuple[tuple[str, ...], tuple[str, ...]]:
    classes = tuple(name for bit, name in enumerate(CLASSES) if code >> bit & 1)
    rest = code >> len(CLASSES)
    return classes, tuple(name for bit, name in enumerate(space.operations) if rest >> bit & 1)
