"""What recording costs by itself: a span beside an empty context manager, and our trainer's record of its own time.

programs/empty_spans.py       alternating loops          -> nanoseconds per span and per empty one
programs/trainer_switched.py  stretches of one run       -> pairs of CPU-seconds, recorded and not
"""

import json
import random
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drivetrain.bench.report import Case, Skipped, Target
from drivetrain.bench.scope.contenders import FOLDER, OURS_TRAIN
from drivetrain.bench.scope.trial import finish

SPAN, TRAINER = "a span alone", "our trainer's record of its own time"
NAMES = (SPAN, TRAINER)
MOST_OF_EMPTY, MOST_OF_TRAINER = 2.0, 1.01
NUM_PAIRS, NUM_QUICK_PAIRS = 150, 10
_NUM_RESAMPLES = 2_000


def measure_own(names: Sequence[str], *, is_quick: bool) -> tuple[list[Case], list[Skipped]]:
    """Measure those that are named.

    Raises:
        RunError: A program failed.
    """
    cases: list[Case] = []
    if SPAN in names:
        cases.append(span_case(_said("empty_spans")))
    absent = OURS_TRAIN.missing()
    if TRAINER not in names:
        return cases, []
    if absent is not None:
        return cases, [Skipped(name=TRAINER, reason=absent.reason, remedy=absent.remedy)]
    pairs = _said("trainer_switched", str(NUM_QUICK_PAIRS if is_quick else NUM_PAIRS))
    return [*cases, trainer_case(pairs)], []


def span_case(found: dict[str, list[float]]) -> Case:
    """The fastest loops: other processes only ever make one slower."""
    span, nothing = min(found["span"]), min(found["nothing"])
    return Case(
        name=SPAN,
        unit="× an empty context manager in C",
        better="lower",
        group="A span alone",
        samples={"ours": [span / nothing]},
        references={"limit": [MOST_OF_EMPTY], "ns": [span], "empty, ns": [nothing]},
        targets=(Target(against="limit", aim=1.0),),
        details={"rounds": len(found["span"]), "medians": {name: statistics.median(ns) for name, ns in found.items()}},
        notes=["`with span: pass` in a loop, the fastest of alternating rounds in one process; the loop is in both."],
    )


def trainer_case(pairs: Sequence[tuple[float, float]]) -> Case:
    """The median of the pairs' ratios, with a 95% interval from resampled pairs."""
    ratios = [recorded / alone for recorded, alone in pairs]
    low, high = interval(ratios)
    return Case(
        name=TRAINER,
        unit="× CPU not recorded",
        better="lower",
        group="Our trainer's record of its own time",
        samples={"ours": [statistics.median(ratios)]},
        references={
            "limit": [MOST_OF_TRAINER],
            "low": [low],
            "high": [high],
            "of all CPU-seconds": [sum(recorded for recorded, _ in pairs) / sum(alone for _, alone in pairs)],
            "of the fastest": [min(recorded for recorded, _ in pairs) / min(alone for _, alone in pairs)],
        },
        targets=(Target(against="limit", aim=1.0),),
        details={"pairs": [list(pair) for pair in pairs]},
        notes=[
            f"{len(pairs)} pairs of stretches of one run (DQN, CartPole, one process), in random order; low and high: "
            "95% of medians of resampled pairs."
        ],
    )


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Of their median, by the percentile bootstrap (Efron 1979)."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(_NUM_RESAMPLES))
    return medians[round(0.025 * _NUM_RESAMPLES)], medians[round(0.975 * _NUM_RESAMPLES) - 1]


def _said(program: str, *arguments: str) -> Any:
    with tempfile.TemporaryDirectory(prefix="drivetrain-bench-") as name:
        finish([str(FOLDER / f"{program}.py"), *arguments, "said.json"], Path(name))
        return json.loads((Path(name) / "said.json").read_text())
