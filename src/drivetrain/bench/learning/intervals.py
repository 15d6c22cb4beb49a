"""Interquartile means, their bootstrap intervals, and the verdict on a difference.

The methods are those of Agarwal et al. 2021, arXiv:2108.13264 (the library rliable): a run's score is
the mean return of its evaluation; scores are summed up by the interquartile mean; intervals are
percentiles of the statistic over resamples, drawn with replacement within each stratum, which is one
side's runs of one case. SciPy's `trim_mean` and `bootstrap` do that; rliable itself is not used, since
it wants packages for plots and econometrics for the same two calls.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats as untyped  # pyright: ignore[reportMissingTypeStubs]

stats: Any = untyped
CONFIDENCE = 0.95
NUM_RESAMPLES = 20_000

Verdict = Literal["parity", "behind", "not shown"]
Scores = Sequence[float]


class Estimate(NamedTuple):
    """A statistic with its 95% interval, which is absent (None) with fewer than two runs a stratum."""

    value: float
    low: float | None
    high: float | None


def iqm(scores: Any, axis: int = -1) -> Any:
    """Interquartile mean: the mean without the lowest and highest quarter, each rounded down to whole runs."""
    return stats.trim_mean(scores, 0.25, axis=axis)


def estimate(scores: Scores) -> Estimate:
    """Interquartile mean of one side's runs."""
    return bootstrapped([scores], iqm)


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


def bootstrapped(strata: Sequence[Scores], statistic: Callable[..., Any]) -> Estimate:
    """A statistic of some strata, resampled within each; the resampling is the same every time.

    Args:
        strata: Scores, at least one each.
        statistic: Called with one array per stratum and the `axis` that the scores are along.
    """
    samples = [np.asarray(scores, np.float64) for scores in strata]
    value = float(statistic(*samples, axis=-1))
    if min(len(sample) for sample in samples) < 2:
        return Estimate(value, None, None)
    found = stats.bootstrap(
        samples,
        statistic,
        vectorized=True,
        n_resamples=NUM_RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    low, high = found.confidence_interval
    return Estimate(value, float(low), float(high))


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
