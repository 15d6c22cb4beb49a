"""A trace with records of GPUs, joined: threads with their calls cut out, devices with who launched what.

Trace -> calls -> threads -> launches -> time lines of threads (cut), of streams, and of what devices were in
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.accelerator import tracks
from drivetrain.scope.accelerator.calls import API, BY_PRECEDENCE, WAITING, calls_of, cut, with_calling_threads
from drivetrain.scope.accelerator.counting import device_calls
from drivetrain.scope.accelerator.gaps import gaps_of, of_any, switched_off
from drivetrain.scope.accelerator.launches import GAP, MORE_SITES, Launches, counted, launches_of
from drivetrain.scope.calibration.device_calls import DeviceCalls
from drivetrain.scope.intervals import Intervals, Ints
from drivetrain.scope.states import IDLE, State, StateSpace
from drivetrain.scope.timeline import Timeline, timeline
from drivetrain.scope.trace.events import Trace
from drivetrain.scope.trace.gpu import CUPTI, OVERHEAD, GpuTrace


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
        return self._cut(BY_PRECEDENCE)

    @cached_property
    def called(self) -> list[Timeline]:
        """The same for the correction: what recording took is where it was spent, in calls."""
        return self._cut((API, WAITING))

    def _cut(self, classes: tuple[int, ...]) -> list[Timeline]:
        parts, found = self.launches.parts, list[Timeline]()
        for thread, line, rows in zip(self.trace.threads, self.uncut, self._rows, strict=True):
            off = self._switched_off.get(thread.process)
            found.append(cut(line, self.calls, rows, parts, self.space, classes, off))
        return found

    @cached_property
    def _switched_off(self) -> dict[int, Intervals]:
        return switched_off(self.calls, self.trace.end_ns)

    @cached_property
    def gaps(self) -> dict[int, Intervals]:
        """Per process when it is not known what GPUs did."""
        return gaps_of(self.gpu, self.calls, self.launches, self.trace.end_ns)

    @cached_property
    def gap(self) -> Intervals:
        """When it was not recorded for some process that uses GPUs."""
        return of_any(self.gaps)

    def clock(self, times_ns: Ints) -> Ints:
        """Times on a clock that stands still in gaps: what lies in between is as long as all processes recorded."""
        return times_ns - self.gap.before(times_ns)

    @cached_property
    def device_calls(self) -> list[DeviceCalls]:
        """What each thread called, for the calibration."""
        return [device_calls(self.calls, rows, self.gpu.names) for rows in self._rows]

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

    @cached_property
    def recorded(self) -> Intervals:
        """Of activities, on the clock that stands still in gaps."""
        return Intervals(*map(self.clock, self.times))

    @property
    def recorded_ns(self) -> int:
        """As that clock goes, how long the session lasts."""
        first, last = self.clock(np.array([self.trace.begin_ns, self.trace.end_ns])).tolist()
        return last - first

    @property
    def notes(self) -> tuple[str, ...]:
        """What of devices was not captured, or does not fit the session, in sentences."""
        notes, activity = [*self.gpu.notes], self.gpu.activity
        if self._cut_off:
            names = ", ".join(self._cut_off)
            notes.append(f"What GPUs did last in process {names} is missing: it was killed with that in buffers.")
        outside = (activity.end_ns < self.trace.begin_ns) | (activity.begin_ns > self.trace.end_ns)
        if outside.any():
            of_all = f"{int(outside.sum())} of {len(activity)} activities of GPUs"
            notes.append(f"{of_all} lie outside the session's time and are not counted.")
        return tuple(notes)

    @property
    def _cut_off(self) -> list[str]:
        """Processes that used GPUs and whose main thread did not say that it ended."""
        used = set(self.gpu.api.process[self.gpu.api.kind != OVERHEAD].tolist())
        unended = [
            thread.process
            for thread in self.trace.threads
            if thread.tid == self.trace.processes[thread.process].pid and thread.num_events and not thread.has_ended
        ]
        is_recorded = bool(self.trace.about.get("end_ns")) and self.gpu.source == CUPTI
        return [self.trace.process_names[number] for number in unended if number in used and is_recorded]

    @cached_property
    def lines_of_states(self) -> list[Timeline]:
        """When any device was in each state, gaps being one."""
        where = self.trace.begin_ns, self.trace.end_ns, self.space.code(IDLE)
        lines = list(tracks.lines_of_states(self.times, self.launches.state, *where))
        for gaps in self.gaps.values():
            lines.append(tracks.line_of(gaps, np.full(len(gaps.begin), self._gap, np.int32), *where))
        return lines

    @property
    def _gap(self) -> int:
        return self.space.code(State(GAP.operation, GAP.time_class, ""))

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
            if (gaps := self.gaps.get(track.process)) is not None:
                found[track] = tracks.with_gaps(found[track], gaps, self.space.code(IDLE), self._gap)
        return found
