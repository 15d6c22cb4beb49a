"""What recording costs by itself: a span beside an empty context manager, and our trainer's record of its own time.

programs/empty_spans.py       alternating loops          -> nanoseconds per span and per empty one
programs/trainer_switched.py  stretches of one run       -> pairs of CPU-seconds, recorded and not; and once per run
"""

import json
import random
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivetrain.bench.report import EVERYTHING, INTERRUPTED, Case, Skipped, Target, left_out
from drivetrain.bench.scope.contenders import FOLDER, OURS_TRAIN
from drivetrain.bench.scope.trial import finish
from drivetrain.core.errors import RunError

SPAN, TRAINER, WHOLE = (
    "a span alone",
    "our trainer's record of its own time",
    "our trainer's record of a whole run, with its report",
)
NAMES = (SPAN, TRAINER)
MOST_OF_EMPTY, MOST_OF_TRAINER = 2.0, 1.01
NUM_PAIRS, NUM_QUICK_PAIRS = 600, 10
_NUM_RESAMPLES = 2_000


def measure_own(names: Sequence[str], *, is_quick: bool) -> tuple[list[Case], list[Skipped]]:
    """Measure those that are named; what fails is left out, with the reason, and the rest when it is interrupted."""
    cases: list[Case] = []
    skipped: list[Skipped] = []
    for name in names:
        absent = OURS_TRAIN.missing() if name == TRAINER else None
        if absent is not None:
            skipped.append(Skipped(name=name, reason=absent.reason, remedy=absent.remedy))
            continue
        try:
            cases += _measured(name, is_quick=is_quick)
        except RunError as error:
            skipped += left_out({name: str(error)})
        except KeyboardInterrupt:
            skipped += left_out({EVERYTHING: INTERRUPTED})
            break
    return cases, skipped


def _measured(name: str, *, is_quick: bool) -> list[Case]:
    if name == SPAN:
        return [span_case(_said("empty_spans"))]
    said = _said("trainer_switched", str(NUM_QUICK_PAIRS if is_quick else NUM_PAIRS))
    return [trainer_case(said["pairs"]), whole_case(**said)]


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
    beside = {
        "of all CPU-seconds": sum(recorded for recorded, _ in pairs) / sum(alone for _, alone in pairs),
        "of the fastest": min(recorded for recorded, _ in pairs) / min(alone for _, alone in pairs),
    }
    note = (
        f"{len(pairs)} pairs of stretches of one run (DQN, CartPole, one process), in random order; low and high: "
        "95% of medians of resampled pairs."
    )
    return replace(_over_not_recorded(TRAINER, pairs, 0.0, beside, note), details={"pairs": [list(p) for p in pairs]})


def whole_case(pairs: Sequence[tuple[float, float]], once_s: float, num_stretches: float) -> Case:
    """What its steps cost more, and what a run pays once, over the CPU time of a run's steps.

    Args:
        pairs: CPU-seconds of stretches, recorded and not.
        once_s: CPU-seconds of the record's beginning and end, its report included.
        num_stretches: Of a run.
    """
    once = once_s / (num_stretches * statistics.median(alone for _, alone in pairs))
    note = "A run of the preset's length, by its steps alone: what is compiled, evaluated and saved is left out."
    return _over_not_recorded(WHOLE, pairs, once, {"once, s": once_s, "once, share": once}, note)


def _over_not_recorded(
    name: str, pairs: Sequence[tuple[float, float]], more: float, beside: Mapping[str, float], note: str
) -> Case:
    """The median ratio and its interval, with a share `more`."""
    ratios = [recorded / alone for recorded, alone in pairs]
    low, high = interval(ratios)
    known = {"limit": MOST_OF_TRAINER, "low": low + more, "high": high + more, **beside}
    return Case(
        name=name,
        unit="× CPU not recorded",
        better="lower",
        group=TRAINER.capitalize(),
        samples={"ours": [statistics.median(ratios) + more]},
        references={what: [value] for what, value in known.items()},
        targets=(Target(against="limit", aim=1.0),),
        notes=[note],
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
