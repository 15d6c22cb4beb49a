"""What the kept runs of a case say: scores, differences, verdicts."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from drivetrain.bench.learning.case import LearningCase
from drivetrain.bench.learning.cases import CASES
from drivetrain.bench.learning.intervals import Estimate, Verdict, difference, estimate, pooled_difference, verdict
from drivetrain.bench.learning.records import Run, counting
from drivetrain.bench.learning.sides import PEER, SIDES

FORMS = tuple(side.name for side in SIDES if side.name != PEER)
"""The sides that are ours."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One form of ours against Stable-Baselines3, in one case."""

    case: LearningCase
    form: str
    difference: Estimate
    verdict: Verdict


def scores(runs: Sequence[Run]) -> list[float]:
    """The score of each run: the mean return of its evaluation."""
    return [statistics.fmean(run["returns"]) for run in runs]


def summed_up(runs: Sequence[Run]) -> Estimate:
    """Interquartile mean of the runs' scores."""
    return estimate(scores(runs))


def compared(runs: Sequence[Run], case: LearningCase) -> list[Comparison]:
    """Our forms that have runs of a case, against Stable-Baselines3's; none without runs of its."""
    theirs = scores(counting(runs, case, PEER))
    comparisons: list[Comparison] = []
    for form in FORMS:
        ours = scores(counting(runs, case, form))
        if not ours or not theirs:
            continue
        found = difference(ours, theirs)
        shown = verdict(found, case.margin, (len(ours), len(theirs)), case.num_seeds)
        comparisons.append(Comparison(case=case, form=form, difference=found, verdict=shown))
    return comparisons


def compared_together(runs: Sequence[Run], form: str) -> tuple[Estimate, list[LearningCase]] | None:
    """The difference over all cases where both sides have enough runs, and these cases.

    Returns are scaled to 0 for random actions and 1 for a good policy; None where no case has enough.
    """
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    cases: list[LearningCase] = []
    for case in CASES:
        sides = [scaled(scores(counting(runs, case, side)), case) for side in (form, PEER)]
        if min(map(len, sides)) >= max(case.num_seeds, 2):
            ours.append(sides[0])
            theirs.append(sides[1])
            cases.append(case)
    return (pooled_difference(ours, theirs), cases) if cases else None


def scaled(values: Sequence[float], case: LearningCase) -> list[float]:
    """Returns on the scale of a case."""
    return [(value - case.low) / (case.high - case.low) for value in values]
