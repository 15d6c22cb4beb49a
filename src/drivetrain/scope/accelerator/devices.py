"""A trace with records of GPUs, joined: threads with their calls cut out, devices with who launched what.

Trace -> calls -> threads -> launches -> time lines of threads (cut), of streams, and of what devices were in
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.accelerator import tracks
from drivetrain.scope.accelerator.calls import CallTimes, call_times, calls_of, cut, with_calling_threads
from drivetrain.scope.accelerator.intervals import Intervals, Ints
from drivetrain.scope.accelerator.launches import MORE_SITES, Launches, counted, launches_of
from drivetrain.scope.states import IDLE, StateSpace
from drivetrain.scope.timeline import Timeline, timeline
from drivetrain.scope.trace.events import Trace
from drivetrain.scope.trace.gpu import GpuTrace


class Devices:
    """What the analysis of a trace needs where its `gpu` is there."""

    def __init__(self, trace: Trace, gpu: GpuTrace) -> None:
        self.gpu = gpu
        self.calls = calls_of(gpu, {(thread.process, thread.tid) for thread in trace.threads})
        self.trace = with_calling_threads(trace, self.calls)
        self.space = StateSpace((*trace.sites, *MORE_SITES))

    @cached_property
    def uncut(self) -> list[Timeline]:
        """Of each thread, as if nothing were known of its calls."""
        return [timeline(self.trace, thread, self.space) for thread in self.trace.threads]

    @cached_property
    def timelines(self) -> list[Timeline]:
        """Of each thread, its calls being classes of their own."""
        threads = zip(self.uncut, self._rows, strict=True)
        return [cut(line, self.calls, rows, self.launches.parts, self.space) for line, rows in threads]

    @cached_property
    def call_times(self) -> list[CallTimes]:
        """Of each thread, for the correction."""
        threads = zip(self.uncut, self._rows, strict=True)
        return [call_times(line, self.calls, rows, self.launches.parts, self.space) for line, rows in threads]

    @cached_property
    def _rows(self) -> list[Ints]:
        """The calls of each thread, in order of their begin."""
        found: list[Ints] = []
        done: set[tuple[int, int]] = set()
        for thread, line in zip(self.trace.threads, self.uncut, strict=True):
            key = thread.process, thread.tid
            rows = self.calls.of_thread.get(key, np.zeros(0, np.int64))
            if key in done or self._has_namesakes(key):
                rows = self._while_running(line, rows, is_first=key not in done)
            done.add(key)
            found.append(rows)
        return found

    def _has_namesakes(self, key: tuple[int, int]) -> bool:
        return sum((thread.process, thread.tid) == key for thread in self.trace.threads) > 1

    def _while_running(self, line: Timeline, rows: Ints, *, is_first: bool) -> Ints:
        """Calls that a thread made itself, where others had its number before or after it; what nobody of them made
        is the first's.
        """
        api = self.calls.api
        alive = np.flatnonzero(line.state != self.space.code(IDLE))
        if not len(alive):
            return rows if is_first else rows[:0]
        begin, end = line.edge_ns[alive[0]], line.edge_ns[alive[-1] + 1]
        return rows[(api.begin_ns[rows] >= begin) & (api.begin_ns[rows] < end)]

    @cached_property
    def launches(self) -> Launches:
        """Who launched what."""
        return launches_of(self.trace, self.uncut, self.calls, self.space)

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Activities whose times may be added."""
        return counted(self.gpu.activity)

    @cached_property
    def times(self) -> Intervals:
        """Of activities, as far as they lie in the session."""
        activity = self.gpu.activity
        return Intervals(activity.begin_ns, activity.end_ns).within(self.trace.begin_ns, self.trace.end_ns)

    @property
    def notes(self) -> tuple[str, ...]:
        """What of devices was not captured, or does not fit the session, in sentences."""
        activity = self.gpu.activity
        outside = (activity.end_ns < self.trace.begin_ns) | (activity.begin_ns > self.trace.end_ns)
        if not outside.any():
            return self.gpu.notes
        of_all = f"{int(outside.sum())} of {len(activity)} activities of GPUs"
        return (*self.gpu.notes, f"{of_all} lie outside the session's time and are not counted.")

    @cached_property
    def lines_of_states(self) -> list[Timeline]:
        """When any device was in each state."""
        where = self.trace.begin_ns, self.trace.end_ns, self.space.code(IDLE)
        return list(tracks.lines_of_states(self.times, self.launches.state, *where))

    @cached_property
    def lines_of_tracks(self) -> dict[tracks.Track, Timeline]:
        """Of each stream."""
        where = self.trace.begin_ns, self.trace.end_ns, self.space.code(IDLE)
        rows = np.flatnonzero(self.counted)
        found: dict[tracks.Track, Timeline] = {}
        for track, mine in tracks.tracks_of(self.gpu.activity.where(rows)).items():
            at = rows[mine]
            times = Intervals(self.times.begin[at], self.times.end[at])
            found[track] = tracks.line_of(times, self.launches.state[at], *where)
        return found
