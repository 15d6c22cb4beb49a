"""Sums of kernel times as we record them, beside torch.profiler's of the same work, which has them from CUPTI as well.

CUPTI serves one of the two at a time, so the same program runs under each in turn. What is compared ran after the last
pause in which the device rested.
"""

import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from drivetrain.bench.gpu.plan import Found, Part
from drivetrain.bench.gpu.recorded import PROGRAMS, record, under_kineto
from drivetrain.bench.process import lacking
from drivetrain.bench.report import Case, Target
from drivetrain.scope.profile import Profile
from drivetrain.scope.trace.gpu import KERNEL

NAME = "kernels"
NUM_TURNS, NUM_ROUNDS = 3, 100
MOST_PERCENT = 1.0
PAUSE_NS = 250_000_000
"""The program rests for twice as long."""
LIMIT = "limit"


def run(folder: Path, limit_s: float) -> Found:
    """Both in turn, in processes of their own.

    Raises:
        RunError: A program failed, or took a share of the time that leaves too little for the others.
    """
    ours: list[dict[str, list[int]]] = []
    theirs: list[dict[str, list[int]]] = []
    script, words, each_s = PROGRAMS / "fixed_work.py", (str(NUM_ROUNDS),), limit_s / (2 * NUM_TURNS)
    for _ in range(NUM_TURNS):
        with tempfile.TemporaryDirectory(prefix="drivetrain-bench-") as name:
            profile = record(Path(name), script, *words, calibrate_every=0, limit_s=each_s)
            ours.append(times_by_name(profile))
            theirs.append(times_by_name(under_kineto(Path(name), script, *words, limit_s=each_s)))
    return Found(cases=cases(ours, theirs))


def times_by_name(profile: Profile) -> dict[str, list[int]]:
    """Kernel -> how long each of its runs took, nanoseconds; of what ran after the last pause."""
    gpu = profile.trace.gpu
    assert gpu is not None  # it was recorded
    rows = gpu.activity.where(gpu.activity.kind == KERNEL)
    rows = rows.where(np.argsort(rows.begin_ns, kind="stable"))
    rests = rows.begin_ns[1:] - np.maximum.accumulate(rows.end_ns)[:-1] >= PAUSE_NS
    first = int(np.flatnonzero(rests)[-1]) + 1 if rests.any() else 0
    names: list[int] = rows.name[first:].tolist()
    found: dict[str, list[int]] = {}
    for name, ns in zip(names, (rows.end_ns - rows.begin_ns)[first:].tolist(), strict=True):
        found.setdefault(gpu.names[name], []).append(ns)
    return found


def cases(ours: list[dict[str, list[int]]], theirs: list[dict[str, list[int]]]) -> list[Case]:
    """How far the sums and the numbers of kernels are apart, by the medians of the runs.

    Args:
        ours: Kernel -> times, of each run that we recorded.
        theirs: Of each that torch.profiler did.
    """
    sums = [[sum(map(sum, run.values())) for run in runs] for runs in (ours, theirs)]
    numbers = [[sum(map(len, run.values())) for run in runs] for runs in (ours, theirs)]
    apart = [_percent_apart(*map(statistics.median, both)) for both in (sums, numbers)]
    details = {
        "ns": {"ours": sums[0], "torch.profiler": sums[1]},
        "kernels": {"ours": numbers[0], "torch.profiler": numbers[1]},
        "by name, ns": {"ours": _by_name(ours), "torch.profiler": _by_name(theirs)},
    }
    return [
        _case("sum of kernel times", apart[0], MOST_PERCENT, details),
        _case("number of kernels", apart[1], 0.0, {}),
    ]


def _case(name: str, apart: float, most: float, details: Mapping[str, object]) -> Case:
    return Case(
        name=f"{NAME}: {name}",
        group="Kernels, as we record them and as torch.profiler does",
        notes=["Medians of the runs of each; names may be written otherwise, so the sums are of all kernels."],
        details=details,
        samples={"ours": [apart]},
        references={LIMIT: [most]},
        targets=[Target(against=LIMIT, aim=1.0)] if most else [],
        unit="% from torch.profiler's",
        better="lower",
    )


def _percent_apart(ours: float, theirs: float) -> float:
    return 100 * abs(ours / theirs - 1)


def _by_name(runs: list[dict[str, list[int]]]) -> dict[str, float]:
    names = sorted({name for run in runs for name in run})
    return {name: statistics.median(sum(run.get(name, ())) for run in runs) for name in names}


PART = Part(name=NAME, most_s=120, run=run, missing=lambda: lacking("torch"))
