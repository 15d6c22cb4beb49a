"""GPUs of several runs side by side: rows of times, sentences and cells, for the terminal, the page and JSON alike."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from drivetrain.scope.accelerator.usage import Usage
from drivetrain.scope.report import gpu
from drivetrain.scope.report.amounts import part, seconds
from drivetrain.scope.report.beside import Run, ratio_of

_MEASURES: Mapping[str, Callable[[Usage], int]] = {
    "busy": lambda usage: usage.busy_ns,
    "bound by it": lambda usage: usage.bound_ns,
    "all that ran, added": lambda usage: usage.gpu_ns,
    "launching and copying, in threads": lambda usage: gpu.time_of_calls(usage, "accelerator_api")[0],
    "waiting for it, in threads": lambda usage: gpu.time_of_calls(usage, "accelerator_sync")[0],
}
USE_HEADING, LAUNCHED_HEADINGS = "of GPUs", ("launched by", "class")
DEVICE_HEADINGS = ["run", *gpu.DEVICE_HEADINGS]


class Row(NamedTuple):
    """A time of each run that used a GPU."""

    what: tuple[str, ...]
    ns: Mapping[str, int]
    """Letter of the run -> nanoseconds; runs that have nothing of it are left out."""


def used(runs: Sequence[Run]) -> list[Run]:
    """Those in which something ran on a GPU."""
    return [run for run in runs if run.profile.usage is not None and run.profile.usage.was_used]


def in_words(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Letter and sentence: how busy each was, or that none was used."""
    return [(run.letter, gpu.in_words(run.profile.usage)[0]) for run in runs]


def uses(runs: Sequence[Run]) -> list[Row]:
    """How GPUs were used, one row per measure; none where no run used one."""
    found = {run.letter: run.profile.usage for run in used(runs)}
    rows = [
        Row((name,), {letter: measure(usage) for letter, usage in found.items() if usage is not None})
        for name, measure in _MEASURES.items()
    ]
    return [row for row in rows if any(row.ns.values())]


def launched(runs: Sequence[Run]) -> list[Row]:
    """GPU time by launching operation and class, the longest first."""
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for run in used(runs):
        assert run.profile.usage is not None
        for one in run.profile.usage.operations:
            found.setdefault((one.operation, one.time_class), {})[run.letter] = one.ns
    rows = [Row(what, ns) for what, ns in found.items()]
    return sorted(rows, key=lambda row: (-max(row.ns.values()), row.what))


def ratio(run: Run, first: Run, row: Row) -> float | None:
    """A run's time over that of another one, per step where both know theirs; None where one has nothing."""
    if run.letter not in row.ns or first.letter not in row.ns:
        return None
    mine, other = row.ns[run.letter], row.ns[first.letter]
    return ratio_of((run.gpu_per_step_ns(mine), first.gpu_per_step_ns(other)), (mine, other))


def cells(run: Run, row: Row) -> list[str]:
    """Time, share of the time that was recorded, and time per step; empty where the run has nothing of it."""
    usage = run.profile.usage
    if usage is None or run.letter not in row.ns:
        return [""] * 3
    ns = row.ns[run.letter]
    per_step = run.gpu_per_step_ns(ns)
    return [seconds(ns), part(ns, usage.recorded_ns), "" if per_step is None else seconds(per_step)]


def device_cells(runs: Sequence[Run]) -> list[list[str]]:
    """Each run's devices, with what NVML says of them."""
    usages = [(run.letter, run.profile.usage) for run in used(runs)]
    return [[letter, *row] for letter, usage in usages if usage is not None for row in gpu.device_cells(usage)]


def as_json(runs: Sequence[Run]) -> dict[str, Any] | None:
    """Rows with the time of each run and that per step; None where no run used a GPU. JSON's types only."""
    if not used(runs):
        return None
    return {
        "uses": [{"measure": row.what[0], "runs": _numbers(runs, row)} for row in uses(runs)],
        "launched": [
            {"operation": row.what[0], "class": row.what[1], "runs": _numbers(runs, row)} for row in launched(runs)
        ],
    }


def _numbers(runs: Sequence[Run], row: Row) -> dict[str, Any]:
    there = [(run, row.ns[run.letter]) for run in runs if run.letter in row.ns]
    return {run.name: {"ns": ns, "per_step_ns": run.gpu_per_step_ns(ns)} for run, ns in there}
