"""Rows of sums as reports name them: what a process did, and waiting as one thing whatever it waited in."""

import re
from collections import defaultdict
from collections.abc import Iterable

from drivetrain.scope.sites import WAITING
from drivetrain.scope.totals import Spent, Totals


def label(row: Spent) -> str:
    """As in "simulation", "waiting", "inference, evaluation"."""
    what = {"wait": "waiting", "profiler": "recording", "gc": "garbage collection"}.get(row.time_class, row.operation)
    return f"{what}, {row.phase}" if row.phase else what


def group(process: str) -> str:
    """Processes that differ by their number alone, together: "actor 3" is one of the "actors"."""
    return re.sub(r"^(\w+) \d+\b", r"\1s", process)


def by_group(totals: Totals) -> dict[str, dict[str, int]]:
    """Group -> label -> nanoseconds, all its processes together; groups in the order of their begin."""
    found: dict[str, dict[str, int]] = {}
    for row in totals.rows:
        sums = found.setdefault(group(row.process), defaultdict(int))
        sums[label(row)] += row.ns
    return found


def labels(rows: Iterable[dict[str, int]]) -> list[str]:
    """All labels, work before waiting, the one with most time first."""
    sums: dict[str, int] = defaultdict(int)
    for row in rows:
        for name, ns in row.items():
            sums[name] += ns
    return sorted(sums, key=lambda name: (is_waiting(name), -sums[name]))


def is_waiting(name: str) -> bool:
    """Whether a label is that of waiting."""
    return name.startswith("waiting")


def waited(totals: Totals, process_group: str) -> float:
    """Share of a group's time that it waited, after it had started; 0 where there is no such group."""
    rows = [row for row in totals.rows if group(row.process) == process_group and row.operation != "starting"]
    busy = sum(row.ns for row in rows)
    return sum(row.ns for row in rows if row.time_class in WAITING) / busy if busy else 0.0
