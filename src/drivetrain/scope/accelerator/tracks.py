"""Activities of devices as time lines: of a stream for rows and charts, of a state for overlaps with threads."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.intervals import Intervals, Ints, one_after_another
from drivetrain.scope.timeline import Timeline
from drivetrain.scope.trace.gpu import GpuActivity

_NOTHING = np.zeros(0, np.int32)


class Track(NamedTuple):
    """A stream of a device, as one process used it."""

    process: int
    """Index into the trace's processes."""
    device: int
    stream: int

    @property
    def name(self) -> str:
        """How rows call it, in the place of a thread."""
        return f"GPU {self.device} stream {self.stream}"


def tracks_of(activity: GpuActivity) -> dict[Track, Ints]:
    """Rows of each stream, in order of process, device and stream."""
    order = np.lexsort((activity.begin_ns, activity.stream, activity.device, activity.process))
    keys = np.stack([activity.process, activity.device, activity.stream]).astype(np.int64)[:, order]
    bounds = np.flatnonzero((np.diff(keys, axis=1) != 0).any(axis=0)) + 1
    groups = np.split(order, bounds) if len(order) else []
    return {Track(*keys[:, first].tolist()): rows for first, rows in zip([0, *bounds.tolist()], groups, strict=False)}


def line_of(times: Intervals, state: NDArray[np.int32], first_ns: int, last_ns: int, idle: int) -> Timeline:
    """A time line of activities; where several run at once, the first goes on and the next follows it."""
    times = one_after_another(*times.within(first_ns, last_ns))
    order = np.argsort(times.begin, kind="stable")
    edges = np.stack([times.begin[order], times.end[order]], axis=1).ravel()
    states = np.stack([state[order], np.full(len(order), idle, np.int32)], axis=1).ravel()
    return Timeline(
        np.concatenate([[first_ns], edges, [last_ns]]),
        np.concatenate([[idle], states]).astype(np.int32),
        _NOTHING,
        _NOTHING,
        np.array([0, len(states)]),
    )


def with_gaps(line: Timeline, gaps: Intervals, idle: int, gap: int) -> Timeline:
    """The same, where nothing is known of its idle times in the gaps."""
    line = line.divided_at(np.concatenate(gaps))
    inside = gaps.contain(line.edge_ns[:-1])  # each interval is in a gap as a whole, or not at all
    return replace(line, state=np.where(inside & (line.state == idle), gap, line.state).astype(np.int32))


def lines_of_states(
    times: Intervals, state: NDArray[np.int32], first_ns: int, last_ns: int, idle: int
) -> Iterator[Timeline]:
    """One time line per state: when anything at all is in it."""
    for code in np.unique(state).tolist():
        mine = state == code
        union = Intervals(times.begin[mine], times.end[mine]).union()
        yield line_of(union, np.full(len(union.begin), code, np.int32), first_ns, last_ns, idle)
