"""Interquartile means of several runs' scores, and their bootstrap intervals.

The methods are those of Agarwal et al. 2021, arXiv:2108.13264 (the library rliable): a run's score is
the mean return of its evaluation; scores are summed up by the interquartile mean; intervals are
percentiles of the statistic over resamples, drawn with replacement within each stratum, which is one
side's runs of one case. SciPy's `trim_mean` and `bootstrap` do that; rliable itself is not used, since
it wants packages for plots and econometrics for the same two calls.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats as untyped  # pyright: ignore[reportMissingTypeStubs]

stats: Any = untyped
CONFIDENCE = 0.95
NUM_RESAMPLES = 20_000

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
    """Interquartile mean of some runs, one stratum."""
    return bootstrapped([scores], iqm)


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
