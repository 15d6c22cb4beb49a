"""A profile: the breakdown of a trace by thread, operation and class of time, raw and corrected.

trace -> time lines -> totals per state -> rows;  spans x cost -> what recording added -> corrected rows
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from drivetrain.scope import costs, overlap
from drivetrain.scope.sites import CALIBRATION, CLASSES, NATIVE
from drivetrain.scope.states import StateSpace
from drivetrain.scope.timeline import Timeline, timeline
from drivetrain.scope.trace import folder
from drivetrain.scope.trace.events import BEGIN, MARKED, SIMULATED, STEP, Thread, Trace


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
    high_ns: float | None


class Profile:
    """What a session recorded, analysed; see `drivetrain.scope.load`."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.space = StateSpace(trace.sites)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a session's folder."""
        return cls(folder.read(Path(path)))

    @property
    def wall_ns(self) -> int:
        """From the session's begin to its end."""
        return self.trace.end_ns - self.trace.begin_ns

    @cached_property
    def timelines(self) -> list[Timeline]:
        """One per thread of the trace."""
        return [timeline(self.trace, thread, self.space) for thread in self.trace.threads]

    def process_name(self, index: int) -> str:
        """How rows call a process."""
        return str(self.trace.processes[index].pid)

    def thread_name(self, thread: Thread) -> str:
        """How rows call a thread; the same for no two of a process."""
        is_main = thread.tid == self.trace.processes[thread.process].pid
        return "main" if is_main else f"{thread.name or 'thread'} {thread.tid}.{thread.number}"

    def breakdown(self) -> list[Row]:
        """All rows, by process and thread, longest first within a thread."""
        return [row for index in range(len(self.trace.threads)) for row in self._rows(index)]

    def _rows(self, index: int) -> list[Row]:
        thread, line = self.trace.threads[index], self.timelines[index]
        totals = line.totals(self.space.size)
        charge = self._charges[index]
        rows: list[Row] = []
        for code in sorted(np.flatnonzero(totals).tolist(), key=lambda code: -totals[code]):
            state, raw = self.space.state(code), int(totals[code])
            bounds = (None, None, None)
            if charge is not None:
                likely, least, most = (float(x[code]) for x in (charge.likely_ns, charge.low_ns, charge.high_ns))
                bounds = (raw - likely, raw - most, raw - least)
            rows.append(
                Row(
                    process=self.process_name(thread.process),
                    thread=self.thread_name(thread),
                    operation=state.operation,
                    time_class=state.time_class,
                    phase=state.phase,
                    raw_ns=raw,
                    corrected_ns=bounds[0],
                    low_ns=bounds[1],
                    high_ns=bounds[2],
                )
            )
        return rows

    @cached_property
    def _charges(self) -> list[costs.Charge | None]:
        """Per thread what recording added to each state. The measurement of the cost is no cost of the program's:
        it is a row of its own, of class "profiler".
        """
        per_process = costs.measured(self.trace)
        calibration = self.trace.sites.index(CALIBRATION) if CALIBRATION in self.trace.sites else -1
        charges: list[costs.Charge | None] = []
        for thread, line in zip(self.trace.threads, self.timelines, strict=True):
            cost = per_process[thread.process]
            own = line.entered_site != calibration
            charges.append(
                None if cost is None else costs.charge(cost, line.entered[own], line.entered_from[own], self.space.size)
            )
        return charges

    def overhead(self) -> dict[str, Any]:
        """What recording cost, all threads together: events, spans, nanoseconds with bounds, and what was dropped."""
        known = [charge for charge in self._charges if charge is not None]
        return {
            "num_events": self.trace.num_events,
            "num_dropped": sum(thread.num_dropped for thread in self.trace.threads),
            "cost_of_a_span": {
                self.process_name(index): cost and {**cost._asdict(), "total_ns": cost.total_ns}
                for index, cost in enumerate(costs.measured(self.trace))
            },
            "method": "empty spans, timed by each process when it started to record; bounds from published errors",
            "total_ns": sum(float(charge.likely_ns.sum()) for charge in known),
            "low_ns": sum(float(charge.low_ns.sum()) for charge in known),
            "high_ns": sum(float(charge.high_ns.sum()) for charge in known),
        }

    def overlaps(self) -> list[overlap.Overlap]:
        """What was going on at the same time in all threads and processes; sums to the wall time."""
        return overlap.overlaps(self.timelines, self.space)

    def num_steps(self) -> int:
        """Steps marked by the program; where it marks none, steps of simulators that hooks saw."""
        kinds: Counter[int] = Counter()
        for thread in self.trace.threads:
            kinds.update(thread.value[thread.kind == STEP].tolist())
        return kinds[MARKED] or kinds[SIMULATED]

    def startup_ns(self) -> int:
        """From the session's begin to the first operation that any thread enters: imports, and setting up."""
        first = self.trace.end_ns
        for thread in self.trace.threads:
            names_one = np.array([bool(site.operation) for site in self.trace.sites], np.bool_)
            begins = thread.kind == BEGIN
            times = thread.time_ns[begins][names_one[thread.site[begins]]]
            first = min(first, int(times[0])) if len(times) else first
        return first - self.trace.begin_ns

    def transitions(self) -> dict[str, dict[str, int]]:
        """How often Python called into native code: operation -> class -> calls, in all threads."""
        counts: dict[str, Counter[str]] = {}
        python = CLASSES.index("python")
        for line in self.timelines:
            from_python = line.entered_from // len(self.space.phases) % len(CLASSES) == python
            codes, numbers = np.unique(line.entered[from_python], return_counts=True)
            for code, number in zip(codes.tolist(), numbers.tolist(), strict=True):
                state = self.space.state(int(code))
                if state.time_class in NATIVE:
                    counts.setdefault(state.operation, Counter())[state.time_class] += int(number)
        return {operation: dict(classes) for operation, classes in counts.items()}

    def as_json(self) -> dict[str, Any]:
        """The document of `drivetrain report --json`: JSON's types only."""
        rows: list[dict[str, Any]] = []
        for row in self.breakdown():
            entry = asdict(row)
            entry["class"] = entry.pop("time_class")
            rows.append(entry)
        return {
            "wall_ns": self.wall_ns,
            "overhead": self.overhead(),
            "num_steps": self.num_steps(),
            "startup_ns": self.startup_ns(),
            "transitions": self.transitions(),
            "overlaps": [item._asdict() for item in self.overlaps()],
            "processes": [asdict(process) for process in self.trace.processes],
            "not_captured": list(self.trace.notes),
            "rows": rows,
        }
