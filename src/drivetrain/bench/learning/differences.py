"""Differences between two sides' runs, and the verdict on one.

Of interquartile means, with intervals from resamples of each side's runs of each case: the methods of
`drivetrain.train.runs.intervals`.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drivetrain.train.runs.intervals import Estimate, Scores, bootstrapped, iqm

Verdict = Literal["parity", "behind", "not shown"]


def difference(ours: Scores, theirs: Scores) -> Estimate:
    """Interquartile mean of ours less theirs; above 0, ours is better."""
    return pooled_difference([ours], [theirs])


def pooled_difference(ours: Sequence[Scores], theirs: Sequence[Scores]) -> Estimate:
    """The difference over several cases at once, of scores on a common scale.

    Args:
        ours: Scores of each case.
        theirs: As many.
    """
    count = len(ours)

    def statistic(*strata: NDArray[np.float64], axis: int) -> Any:
        mine, others = np.concatenate(strata[:count], axis), np.concatenate(strata[count:], axis)
        return iqm(mine, axis) - iqm(others, axis)

    return bootstrapped([*ours, *theirs], statistic)


def verdict(found: Estimate, margin: float, num_runs: Sequence[int], needed: int) -> Verdict:
    """What a difference shows.

    Args:
        found: The difference, ours less theirs.
        margin: The loss that still counts as parity.
        num_runs: Of each side.
        needed: Runs that a verdict takes of each.

    Returns:
        "parity" where the interval excludes a loss beyond the margin; "behind" where it does not, and
        excludes that there is no loss; "not shown" otherwise, and with too few runs.
    """
    if found.low is None or found.high is None or min(num_runs) < needed:
        return "not shown"
    if found.low >= -margin:
        return "parity"
    return "behind" if found.high < 0 else "not shown"
