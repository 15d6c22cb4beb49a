"""A trace in memory: events of threads as arrays, sites numbered once for all processes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.notes import GPU_REFUSED
from drivetrain.scope.sites import Site
from drivetrain.scope.trace.gpu import GpuTrace

# EventKind and StepKind of cpp/include/drivetrain/event_log_format.hpp
BEGIN, END, STEP, LANE, THREAD_END, BLOCK, COUNT = 1, 2, 3, 4, 5, 6, 7
MARKED, SIMULATED, UPDATED = 0, 1, 2
INSTRUMENTS = ("call", "annotation")
"""What records spans; the value of BEGIN and END says which."""
RESUMED = 1 << 8
"""In that value: the span was entered before, while nothing recorded it."""
SILENT = 1
"""The value of a THREAD_END that the thread did not write: it was killed, or left, and counts as ended there."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process of the session."""

    pid: int
    start: int
    """Clock ticks since boot: with the pid, names a process for good. What one became by os.exec is another, one tick
    later.
    """
    parent: int
    """Its parent's pid; 0 where it is not known."""
    argv: tuple[str, ...]
    alone_ns: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """Per instrument what a span costs alone: recorded beyond muted, muted beyond none; empty in forked children."""


def names_of(processes: Iterable[Process]) -> tuple[str, ...]:
    """By pid, from the second of one pid on with their place among those."""
    so_far = Counter[int]()
    names: list[str] = []
    for process in processes:
        so_far[process.pid] += 1
        names.append(f"{process.pid}" + f" ({so_far[process.pid]})" * (so_far[process.pid] > 1))
    return tuple(names)


@dataclass(frozen=True, kw_only=True, eq=False)
class Thread:
    """A thread's events, in the order in which they happened."""

    process: int
    """Index into the trace's processes."""
    number: int
    """In its process, by first event."""
    tid: int
    name: str
    time_ns: NDArray[np.int64]
    kind: NDArray[np.uint8]
    site: NDArray[np.int32]
    """Index into the trace's sites for BEGIN and END; the stack's number for LANE; trace/blocks.py for others."""
    value: NDArray[np.uint16]
    num_dropped: int = 0

    @property
    def num_events(self) -> int:
        """All of them, steps included."""
        return len(self.time_ns)

    @property
    def has_ended(self) -> bool:
        """Whether it said so."""
        return bool(self.num_events) and self.kind[-1] == THREAD_END and self.value[-1] != SILENT


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """What a session recorded. Times are nanoseconds of the machine's monotonic clock."""

    begin_ns: int
    end_ns: int
    sites: tuple[Site, ...]
    processes: tuple[Process, ...]
    threads: tuple[Thread, ...]
    about: dict[str, Any]
    """session.json, and "num_dropped", the events for which there was no room."""
    notes: tuple[str, ...] = ()
    """What was not captured, and why, in sentences."""
    gpu: GpuTrace | None = None
    """What GPUs did; None where nothing recorded them."""

    @cached_property
    def process_names(self) -> tuple[str, ...]:
        """What reports call the processes."""
        return names_of(self.processes)

    @cached_property
    def began_ns(self) -> tuple[int, ...]:
        """When each process had its first event; the session's end for one that had none."""
        found = [self.end_ns] * len(self.processes)
        for thread in self.threads:
            if thread.num_events:
                found[thread.process] = min(found[thread.process], int(thread.time_ns[0]))
        return tuple(found)

    @cached_property
    def origins(self) -> tuple[int, ...]:
        """Of each process the one that it comes from, -1 where that was not recorded: what it was before os.exec, else
        what its parent was when it began. One that had its number long before is not it.
        """
        begin_ns = self.began_ns
        of_pid: dict[int, list[int]] = defaultdict(list)
        found: list[int] = []
        for number, process in enumerate(self.processes):  # parents come first
            was = [other for other in of_pid[process.pid] if self.processes[other].start == process.start - 1]
            before = was or of_pid[process.parent]
            earlier = [other for other in before if begin_ns[other] <= begin_ns[number]]
            found.append(max(earlier, key=lambda other: begin_ns[other], default=before[0] if before else -1))
            of_pid[process.pid].append(number)
        return tuple(found)

    @property
    def knows_gpus(self) -> bool:
        """Whether it is known what GPUs did, be it nothing: readings of NVML alone do not say whose work they saw."""
        if self.gpu is None or len(self.gpu.activity):
            return self.gpu is not None
        return not any(note.startswith(GPU_REFUSED) for note in self.notes)

    @property
    def num_events(self) -> int:
        """Of all threads."""
        return sum(thread.num_events for thread in self.threads)

    @property
    def num_dropped(self) -> int:
        """Events for which there was no room; of threads that had none at all the session knows, and no thread here."""
        return max(sum(thread.num_dropped for thread in self.threads), self.about.get("num_dropped", 0))
