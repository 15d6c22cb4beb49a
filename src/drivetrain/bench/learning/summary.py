"""What the kept runs of a case say: scores, differences, verdicts."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drivetrain.bench.learning.case import LearningCase
from drivetrain.bench.learning.contests import Contest
from drivetrain.bench.learning.differences import Verdict, difference, pooled_difference, verdict
from drivetrain.bench.learning.records import Run, counting
from drivetrain.bench.learning.sides import Side
from drivetrain.train.runs.intervals import Estimate, estimate

TENTHS = np.arange(1, 10) / 10
"""Shares of a case's steps at which runs are read on the way; at the end there is the score."""
LATE = 0.6
"""The share of a case's steps from which on a run is said to be late."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One form against another, in one case.

    Attributes:
        difference: Of the scores, the form's less the peer's.
        on_the_way: As `difference`, of each run's mean return at the tenths of its steps.
        late: As `difference`, of each run's mean return from LATE on.
        verdict: On the difference of the scores.
    """

    case: LearningCase
    form: Side
    peer: Side
    difference: Estimate
    on_the_way: Estimate
    late: Estimate
    verdict: Verdict


def scores(runs: Sequence[Run]) -> list[float]:
    """The score of each run: the mean return of its evaluation."""
    return [statistics.fmean(run["returns"]) for run in runs]


def on_the_way(run: Run, case: LearningCase) -> NDArray[np.float64]:
    """Return at each tenth of a case's steps: that of the latest evaluation, of the first before there is one.

    An evaluation comes at the end of a block of steps, so one counts for a tenth up to half a tenth later.
    """
    curve = np.asarray(run["curve"], np.float64)
    latest = np.searchsorted(curve[:, 0], (TENTHS + 0.05) * case.total_steps, side="right") - 1
    return curve[latest.clip(0), 1]


def averages(runs: Sequence[Run], case: LearningCase) -> list[float]:
    """Each run's mean return on the way."""
    return [float(on_the_way(run, case).mean()) for run in runs]


def late(runs: Sequence[Run], case: LearningCase) -> list[float]:
    """Each run's mean return over its evaluations from LATE on, its score the last of them."""
    means: list[float] = []
    for run, score in zip(runs, scores(runs), strict=True):
        found = [mean for step, mean in run["curve"] if LATE * case.total_steps <= step < run["num_steps"]]
        means.append(statistics.fmean([*found, score]))
    return means


def summed_up(runs: Sequence[Run]) -> Estimate:
    """Interquartile mean of the runs' scores."""
    return estimate(scores(runs))


def compared(runs: Sequence[Run], case: LearningCase, pairs: Sequence[tuple[Side, Side]]) -> list[Comparison]:
    """The pairs of forms and peers of which both have runs of a case."""
    comparisons: list[Comparison] = []
    for form, peer in pairs:
        ours, theirs = counting(runs, case, form.name), counting(runs, case, peer.name)
        if not ours or not theirs:
            continue
        found = difference(scores(ours), scores(theirs))
        comparisons.append(
            Comparison(
                case=case,
                form=form,
                peer=peer,
                difference=found,
                on_the_way=difference(averages(ours, case), averages(theirs, case)),
                late=difference(late(ours, case), late(theirs, case)),
                verdict=verdict(found, case.margin, (len(ours), len(theirs)), case.num_seeds),
            )
        )
    return comparisons


def compared_together(runs: Sequence[Run], form: Side, contest: Contest) -> tuple[Estimate, list[LearningCase]] | None:
    """The difference over all cases where both sides have enough runs, and these cases.

    Returns are scaled to 0 for random actions and 1 for a good policy; None where no case has enough.
    """
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    cases: list[LearningCase] = []
    for case in contest.cases:
        sides = [scaled(scores(counting(runs, case, side.name)), case) for side in (form, contest.peer)]
        if min(map(len, sides)) >= max(case.num_seeds, 2):
            ours.append(sides[0])
            theirs.append(sides[1])
            cases.append(case)
    return (pooled_difference(ours, theirs), cases) if cases else None


def scaled(values: Sequence[float], case: LearningCase) -> list[float]:
    """Returns on the scale of a case."""
    return [(value - case.low) / (case.high - case.low) for value in values]
