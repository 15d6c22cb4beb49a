"""A profile: the breakdown of a trace by thread, operation and class of time, raw and corrected.

trace -> time lines -> totals per state -> rows;  spans x cost -> what recording added -> corrected rows
records of GPUs -> classes of threads' calls, time lines of devices, how devices were used
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.docstrings import with_fields
from drivetrain.core.paths import given_path
from drivetrain.scope import overlap
from drivetrain.scope.accelerator.devices import Devices
from drivetrain.scope.accelerator.usage import Usage, usage_of
from drivetrain.scope.correction import NOTHING, Correction, Interval
from drivetrain.scope.sites import CLASSES, MEMBER, NATIVE
from drivetrain.scope.states import StateSpace
from drivetrain.scope.timeline import Timeline, timeline
from drivetrain.scope.trace import folder
from drivetrain.scope.trace.blocks import Blocks, mask_of_events, num_cut_off_steps, num_unwritten_steps
from drivetrain.scope.trace.events import BEGIN, MARKED, SIMULATED, STEP, Thread, Trace

_Number = TypeVar("_Number", int, float)


@with_fields
@dataclass(frozen=True, kw_only=True)
class Row:
    """Time that one thread spent in one operation and class (and phase)."""

    process: str
    thread: str
    operation: str
    time_class: str
    phase: str
    raw_ns: int
    """As it passed; the rows of a thread sum to the session's wall time."""
    corrected_ns: float | None
    """Without what recording added; None where no cost is known."""
    low_ns: float | None
    """The least that this may be, with 95% confidence; None as there."""
    high_ns: float | None
    """The most that it may be."""


class Profile:
    """What a session recorded, analysed; see `drivetrain.scope.load`."""

    def __init__(self, trace: Trace) -> None:
        self.devices = Devices(trace, trace.gpu) if trace.gpu is not None and trace.knows_gpus else None
        self.trace = self.devices.trace if self.devices else trace
        self.space = self.devices.space if self.devices else StateSpace(trace.sites)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a session's folder."""
        return cls(folder.read(given_path("path", path)))

    @property
    def wall_ns(self) -> int:
        """From the session's begin to its end."""
        return self.trace.end_ns - self.trace.begin_ns

    @cached_property
    def timelines(self) -> list[Timeline]:
        """One per thread of the trace; calls that launch, or wait for a device, are classes of their own."""
        if self.devices:
            return self.devices.timelines
        return [timeline(self.trace, thread, self.space) for thread in self.trace.threads]

    def thread_name(self, thread: Thread) -> str:
        """How rows call a thread; the same for no two of a process."""
        is_main = thread.tid == self.trace.processes[thread.process].pid
        return "main" if is_main else f"{thread.name or 'thread'} {thread.tid}.{thread.number}"

    def breakdown(self) -> list[Row]:
        """All rows, by process and thread, longest first within a thread; then those of devices, by stream."""
        return list(self._breakdown)

    @cached_property
    def _breakdown(self) -> tuple[Row, ...]:
        rows = [row for index in range(len(self.trace.threads)) for row in self._rows(index)]
        for track, line in self.devices.lines_of_tracks.items() if self.devices else ():
            name = self.trace.process_names[track.process]
            rows += [self._row(name, track.name, code, ns, None) for code, ns in _longest_first(line.spent())]
        return tuple(rows)

    def _rows(self, index: int) -> list[Row]:
        thread = self.trace.threads[index]
        corrected = self.correction.of_thread(index)
        # A thread that ran to the end may end before it without recording.
        also = [code for code, one in (corrected or {}).items() if abs(one.likely_ns) >= 1]
        where = self.trace.process_names[thread.process], self.thread_name(thread)
        return [
            self._row(*where, code, ns, None if corrected is None else corrected.get(code, NOTHING))
            for code, ns in _longest_first(self.timelines[index].spent(), also)
        ]

    def _row(self, process: str, thread: str, code: int, raw_ns: int, corrected: Interval | None) -> Row:
        state = self.space.state(code)
        return Row(
            process=process,
            thread=thread,
            operation=state.operation,
            time_class=state.time_class,
            phase=state.phase,
            raw_ns=raw_ns,
            **_bounds(corrected),
        )

    @cached_property
    def correction(self) -> Correction:
        """What recording added."""
        if self.devices is None:
            return Correction(self.trace, self.timelines, self.space)
        return Correction(self.trace, self.devices.called, self.space, self.devices.device_calls)

    def overhead(self) -> dict[str, Any]:
        """What recording cost, all threads together.

        Returns:
            `num_events`, recorded, and `num_dropped`, for want of room; `total_ns`, what they added to all threads,
            between `low_ns` and `high_ns` with 95% confidence, None where no cost is known; `costs`, a dict per process
            and instrument that says what a span costs and how that is known (docs: "The JSON document");
            `behaviour_changes`, sentences on how recording changed what the program did, where it did.
        """
        likely_ns, low_ns, high_ns = self.correction.added() or (None, None, None)
        return {
            "num_events": self.trace.num_events,
            "num_dropped": self.trace.num_dropped,
            "total_ns": likely_ns,
            "low_ns": low_ns,
            "high_ns": high_ns,
            "costs": self.correction.ledger(),
            "behaviour_changes": self.correction.changes,
        }

    @property
    def wall(self) -> Interval | None:
        """The session's wall time without what recording added; None where nothing can be corrected."""
        return self.correction.wall

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not captured, or cannot be corrected, and why; in sentences."""
        of_devices = self.devices.notes if self.devices else ()
        return (*self.trace.notes, *of_devices, *self.correction.changes)

    @cached_property
    def usage(self) -> Usage | None:
        """How GPUs were used; None where nothing recorded them."""
        return usage_of(self.devices, self._overlaps, self.correction.device_costs) if self.devices else None

    @cached_property
    def _overlaps(self) -> dict[int, float]:
        """Time by mask, of threads and devices."""
        lines = [*self.timelines, *(self.devices.lines_of_states if self.devices else ())]
        return overlap.totals([line.edge_ns for line in lines], [line.state for line in lines], self.space)

    def overlaps(self) -> list[overlap.Overlap]:
        """What was going on at the same time in all threads, processes and devices, longest first; sums to the wall
        time. Not corrected where there are records of GPUs.
        """
        raw = self._overlaps
        corrected = None if self.devices else self.correction.overlaps()
        codes = dict.fromkeys([*raw, *(corrected or ())])
        found = [
            overlap.Overlap(
                *overlap.names(code, self.space),
                int(raw.get(code, 0)),
                **_bounds(None if corrected is None else corrected.get(code, NOTHING)),
            )
            for code in codes
        ]
        return sorted(found, key=lambda one: (-one.ns, one.classes, one.operations))

    def num_steps(self) -> int:
        """Steps marked by the program; where it marks none, steps of simulators that hooks saw: of a vector environment
        and not also of those in it, wherever they run.
        """
        return self._sum_of_steps(_steps_of)

    def num_recorded_steps(self) -> int:
        """Those among them in which all instruments recorded."""
        return self._sum_of_steps(lambda thread, _: _recorded_steps_of(thread))

    def extrapolation(self) -> list[float]:
        """Per thread by what its times and counts are to be multiplied to be of all its steps: those in which nothing
        was recorded have none. 1 for a thread that takes no steps, which is recorded throughout, and for one of whose
        steps none was recorded.
        """
        found: list[float] = []
        for thread, blocks in zip(self.trace.threads, self.correction.blocks, strict=True):
            recorded, steps = _recorded_steps_of(thread).total(), _steps_of(thread, blocks).total()
            found.append(steps / recorded if recorded else 1.0)
        return found

    def num_gpu_steps(self) -> int:
        """Those while GPUs were recorded: what their times are of."""
        gap = self.devices.gap if self.devices else None

        def of(thread: Thread, blocks: Blocks) -> Counter[int]:
            wanted = thread.kind == STEP
            if gap is not None:
                wanted &= ~gap.contain(thread.time_ns)
            return _kinds_of(thread, wanted) + num_unwritten_steps(blocks.where(~blocks.gpu_muted))

        return self._sum_of_steps(of)

    def _sum_of_steps(self, of: Callable[[Thread, Blocks], Counter[int]]) -> int:
        """Over all threads, of the kind that counts."""
        kinds: Counter[int] = Counter()
        of_members: Counter[int] = Counter()
        for thread, blocks in zip(self.trace.threads, self.correction.blocks, strict=True):
            (of_members if self.is_member(thread) else kinds).update(of(thread, blocks))
        return kinds[MARKED] + of_members[MARKED] or kinds[SIMULATED] or of_members[SIMULATED]

    def is_member(self, thread: Thread) -> bool:
        """Whether it is the process of an environment in a vector environment, which counts the same steps."""
        sites = self.trace.sites
        return MEMBER in sites and bool(((thread.kind == BEGIN) & (thread.site == sites.index(MEMBER))).any())

    def startup_ns(self) -> int:
        """From the session's begin to the first operation that any thread enters: imports, and setting up. To its end
        where none is entered.
        """
        return self.first_operation_ns() - self.trace.begin_ns

    def first_operation_ns(self, process: int | None = None) -> int:
        """When any thread first enters an operation, or any of one process; the session's end where none does."""
        names_one = np.array([bool(site.operation) for site in self.trace.sites], np.bool_)
        first = self.trace.end_ns
        for thread in self.trace.threads:
            if process is None or thread.process == process:
                begins = thread.kind == BEGIN
                times = thread.time_ns[begins][names_one[thread.site[begins]]]
                first = min(first, int(times[0])) if len(times) else first
        return first

    def transitions(self) -> dict[str, dict[str, int]]:
        """How often Python called into native code: operation -> class -> calls, in all threads."""
        sums = Counter[tuple[str, str]]()
        for counts in self._transitions_of_threads:
            sums.update(counts)
        return _by_operation(sums)

    def transitions_per_step(self) -> dict[str, dict[str, float]] | None:
        """The same per step, as if all had been recorded; None where no steps are known."""
        steps = self.num_steps()
        if not steps:
            return None
        sums: dict[tuple[str, str], float] = {}
        for counts, times in zip(self._transitions_of_threads, self.extrapolation(), strict=True):
            for key, number in counts.items():
                sums[key] = sums.get(key, 0.0) + times * number / steps
        return _by_operation(sums)

    @cached_property
    def _transitions_of_threads(self) -> list[Counter[tuple[str, str]]]:
        python = CLASSES.index("python")
        found: list[Counter[tuple[str, str]]] = []
        for line in self.timelines:
            from_python = self.space.class_of(line.entered_from) == python
            codes, numbers = np.unique(line.entered[from_python], return_counts=True)
            counts = Counter[tuple[str, str]]()
            for code, number in zip(codes.tolist(), numbers.tolist(), strict=True):
                state = self.space.state(int(code))
                if state.time_class in NATIVE:
                    counts[state.operation, state.time_class] += int(number)
            found.append(counts)
        return found

    def as_json(self) -> dict[str, Any]:
        """The document of `drivetrain report --json`: JSON's types only."""
        rows: list[dict[str, Any]] = []
        for row in self.breakdown():
            entry = asdict(row)
            entry["class"] = entry.pop("time_class")
            rows.append(entry)
        return {
            "wall_ns": self.wall_ns,
            "corrected_wall": self.wall and self.wall._asdict(),
            "overhead": self.overhead(),
            "num_steps": self.num_steps(),
            "num_recorded_steps": self.num_recorded_steps(),
            "startup_ns": self.startup_ns(),
            "transitions": self.transitions(),
            "gpu": self.usage and self.usage.as_json(),
            "overlaps": [item._asdict() for item in self.overlaps()],
            "processes": [
                {"name": name, **asdict(process)}
                for name, process in zip(self.trace.process_names, self.trace.processes, strict=True)
            ],
            "not_captured": list(self.notes),
            "rows": rows,
        }


def _kinds_of(thread: Thread, steps: NDArray[np.bool_]) -> Counter[int]:
    kinds: list[int] = thread.value[steps].tolist()
    return Counter(kinds)


def _steps_of(thread: Thread, blocks: Blocks) -> Counter[int]:
    return _kinds_of(thread, thread.kind == STEP) + num_unwritten_steps(blocks) + num_cut_off_steps(thread)


def _recorded_steps_of(thread: Thread) -> Counter[int]:
    wanted = thread.kind == STEP
    if (mask := mask_of_events(thread)) is not None:
        wanted &= mask == 0
    return _kinds_of(thread, wanted)


def _by_operation(counts: Mapping[tuple[str, str], _Number]) -> dict[str, dict[str, _Number]]:
    found: dict[str, dict[str, _Number]] = {}
    for (operation, time_class), number in counts.items():
        found.setdefault(operation, {})[time_class] = number
    return found


def _longest_first(spent: Mapping[int, int], also: Iterable[int] = ()) -> list[tuple[int, int]]:
    """States that have time, or are named, with it."""
    codes = sorted({*(code for code, ns in spent.items() if ns), *also})
    return sorted(((code, spent.get(code, 0)) for code in codes), key=lambda item: -item[1])


def _bounds(found: Interval | None) -> dict[str, float | None]:
    """An interval as rows have it."""
    if found is None:
        return {"corrected_ns": None, "low_ns": None, "high_ns": None}
    return {"corrected_ns": found.likely_ns, "low_ns": found.low_ns, "high_ns": found.high_ns}
