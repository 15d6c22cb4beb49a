"""Sums of a session, or of several in a row: what each process spent on what, and what counting that added.

sessions -> threads -> rows per process, operation and class
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from drivetrain.scope.process import is_here
from drivetrain.scope.sites import AROUND_CALIBRATION, CALIBRATION
from drivetrain.scope.states import State
from drivetrain.scope.trace import totals as trace
from drivetrain.scope.trace.totals import ThreadTotals


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Time that a process spent in one operation and class (and phase)."""

    process: str
    operation: str
    time_class: str
    phase: str
    ns: int
    num_entered: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Totals:
    """Sums over sessions. Processes of one name, as a killed one and its successor, are summed."""

    sessions: tuple[tuple[dict[str, Any], tuple[ThreadTotals, ...]], ...]

    @classmethod
    def load(cls, folders: Iterable[Path]) -> Self:
        """Read sessions, also those that were killed.

        Raises:
            FileFormatError: A folder holds no session that kept sums.
        """
        return cls(sessions=tuple((about, tuple(threads)) for about, threads in map(trace.read, folders)))

    @property
    def threads(self) -> list[ThreadTotals]:
        """Of all sessions."""
        return [thread for _, threads in self.sessions for thread in threads]

    @property
    def wall_ns(self) -> int:
        """Of all sessions, without what lies between them."""
        return sum(_wall_ns(about, threads) for about, threads in self.sessions)

    @cached_property
    def rows(self) -> list[Spent]:
        """By process in the order of their begin, longest first within one."""
        sums: dict[tuple[str, State], list[int]] = defaultdict(lambda: [0, 0])
        order: dict[str, int] = {}
        for thread in self.threads:
            order.setdefault(_label(thread), len(order))
            for path in thread.paths:
                total = sums[_label(thread), path.state]
                total[0] += path.ns
                total[1] += path.num_entered
        rows = [
            Spent(process=process, **state._asdict(), ns=ns, num_entered=count)
            for (process, state), (ns, count) in sums.items()
            if ns
        ]
        return sorted(rows, key=lambda row: (order[row.process], -row.ns))

    @property
    def processes(self) -> list[str]:
        """In the order of their begin."""
        return list(dict.fromkeys(row.process for row in self.rows))

    def process_ns(self, process: str) -> int:
        """All time of a process."""
        return sum(row.ns for row in self.rows if row.process == process)

    @cached_property
    def added_ns(self) -> float:
        """What recording added, all processes together: spans entered times what one cost where they were."""
        return sum(cost * _num_entered(thread) for thread, cost in zip(self.threads, self._costs, strict=True))

    @property
    def num_entered(self) -> int:
        """How many spans that is, all processes together: without those by which each measured what one costs."""
        return sum(map(_num_entered, self.threads))

    @cached_property
    def _costs(self) -> list[float]:
        """Per thread nanoseconds of a span, as its process measured it when it began; 0 where it did not."""
        costs: list[float] = []
        known: dict[str, float] = {}
        for thread in self.threads:
            empty = sum(path.num_entered for path in thread.paths if path.site == CALIBRATION)
            spent = sum(path.ns for path in thread.paths if path.site in (CALIBRATION, AROUND_CALIBRATION))
            if empty:
                known[thread.name] = spent / empty
            costs.append(known.get(thread.name, 0.0))
        return costs

    @property
    def notes(self) -> list[str]:
        """What was not captured, and why, in sentences."""
        notes: list[str] = []
        for number, (about, threads) in enumerate(self.sessions, 1):
            if "end_ns" not in about and not is_here(about):
                notes.append(
                    f"Session {number} goes on on another machine, or was killed: what came after the last event of a "
                    "process is missing."
                )
            elif "end_ns" not in about and any(thread.is_running for thread in threads):
                notes.append(f"Session {number} goes on: this is what its processes had spent so far.")
            elif "end_ns" not in about:
                notes.append(f"Session {number} was killed: what came after the last event of a process is missing.")
            # Others of a process that has ended were in what they were in until then.
            killed = [thread.name for thread in threads if thread.is_main and not thread.has_ended]
            if killed and "end_ns" in about:
                notes.append(f"Killed in session {number}, so that its last moments are missing: {', '.join(killed)}.")
        if unplaced := sum(thread.num_unplaced for thread in self.threads):
            notes.append(f"{unplaced} entries found no room of their own; their time counts as what was around them.")
        return notes

    def as_json(self) -> dict[str, Any]:
        """JSON's types only; the rows of a process sum to its time."""
        return {
            "wall_ns": self.wall_ns,
            "num_sessions": len(self.sessions),
            "added_ns": self.added_ns,
            "not_captured": self.notes,
            "rows": [
                {
                    "process": row.process,
                    "operation": row.operation,
                    "class": row.time_class,
                    "phase": row.phase,
                    "ns": row.ns,
                    "num_entered": row.num_entered,
                }
                for row in self.rows
            ],
        }


def _num_entered(thread: ThreadTotals) -> int:
    return sum(path.num_entered for path in thread.paths if path.site not in (CALIBRATION, AROUND_CALIBRATION))


def _label(thread: ThreadTotals) -> str:
    return thread.name if thread.is_main else f"{thread.name}, other threads"


def _wall_ns(about: dict[str, Any], threads: Iterable[ThreadTotals]) -> int:
    begin_ns = int(about["begin_ns"])
    return int(about.get("end_ns", max((thread.until_ns for thread in threads), default=begin_ns))) - begin_ns
