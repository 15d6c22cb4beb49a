"""What a span costs in a program, from its blocks.

    CPU time of a block = round + steps x work + spans x work + recorded spans x cost + noise

Blocks of a round are close in time and random in order; differences in what they had to do (an episode's end, an
update) are explained by their counts. Noise has long tails, so blocks far from the fit weigh less (Huber 1964), and
standard errors come from the residuals themselves (MacKinnon and White 1985, HC3), not from an assumed spread.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.calibration.device_calls import WAIT, CallsInBlocks
from drivetrain.scope.trace.blocks import Blocks
from drivetrain.scope.trace.events import INSTRUMENTS

Floats = NDArray[np.float64]
LEAST_MUTED = 8
"""Blocks without an instrument; fewer say nothing of their own scatter."""
LEAST_SHARE = 0.05
"""Of all spans: an instrument that records fewer is muted with the others only, and could not be told from them."""
_HUBER = 1.345
"""In standard deviations: 95% efficient where noise is normal."""
_NUM_REWEIGHTINGS = 20


class Estimate(NamedTuple):
    """Nanoseconds that recording adds to a span beyond a muted one; `se_ns` is for two-sided 95% with factor 1.96.

    Of `slowdown` both are shares of time.
    """

    ns: float
    se_ns: float


class Fit(NamedTuple):
    """Some coefficients of a regression."""

    ns: Floats
    covariance: Floats
    identified: NDArray[np.bool_]

    @property
    def se_ns(self) -> Floats:
        """Standard errors."""
        return np.sqrt(np.diag(self.covariance))


def slowdown(blocks: Blocks) -> Estimate | None:
    """By which share recorded blocks take longer than muted ones, whatever the reason; None where too few are muted.

    Of blocks in which everything was muted or nothing was, by their work alone: also what is not in spans shows.
    """
    whole = blocks.where((blocks.mask == 0) | blocks.all_muted)
    num_muted = int(whole.all_muted.sum())
    if num_muted < LEAST_MUTED or num_muted == len(whole):
        return None
    share = np.where(whole.all_muted, 0.0, _scale(whole)[0])  # of the round's mean
    found = fit(whole, share[:, None], covariates(whole, None), whole.cpu_ns)
    if not found.identified[0]:
        return None
    return Estimate(float(found.ns[0]), float(found.se_ns[0]) * student(num_muted - 1))


def estimate(blocks: Blocks, around: Floats | None = None, other_ns: NDArray[Any] | int = 0) -> list[Estimate | None]:
    """Per instrument its cost in one thread; None where these blocks do not identify it.

    Args:
        blocks: Of the thread.
        around: What else took time in them, [blocks, any].
        other_ns: What of their CPU time is known to be of something else.
    """
    recorded = blocks.spans * ~blocks.muted
    total = recorded.sum(axis=0)
    asked = [
        number
        for number in range(len(INSTRUMENTS))
        if blocks.muted[:, number].sum() >= LEAST_MUTED and total[number] > LEAST_SHARE * total.sum()
    ]
    found: list[Estimate | None] = [None] * len(INSTRUMENTS)
    if not asked:
        return found
    around = covariates(blocks, None) if around is None else around
    fitted = fit(blocks, recorded[:, asked].astype(np.float64), around, blocks.cpu_ns - other_ns)
    for place, number in enumerate(asked):
        if fitted.identified[place]:
            factor = student(int(blocks.muted[:, number].sum()) - 1)
            found[number] = Estimate(float(fitted.ns[place]), float(fitted.se_ns[place]) * factor)
    return found


def covariates(blocks: Blocks, calls: CallsInBlocks | None) -> Floats:
    """What blocks had to do, muted or not."""
    counted = np.concatenate([blocks.steps, blocks.spans], axis=1).astype(np.float64)
    return counted if calls is None else np.concatenate([counted, calls.num[:, WAIT, None]], axis=1)


def fit(blocks: Blocks, asked: Floats, around: Floats, cpu_ns: NDArray[Any]) -> Fit:
    """The coefficients of what is asked for, none of it being 0 everywhere, beside all that is around."""
    scale, rounds = _scale(blocks)
    columns = np.concatenate([asked, around], axis=1)
    return _fit(columns / scale[:, None], cpu_ns / scale, rounds, asked.shape[1])


def _scale(blocks: Blocks) -> tuple[Floats, NDArray[np.int64]]:
    """Mean time of the blocks of each one's round, and the rounds: one of long blocks has as much noise more."""
    _, rounds = np.unique(blocks.round, return_inverse=True)
    mean = _mean(blocks.cpu_ns.astype(np.float64), rounds, np.ones(len(blocks)))
    return np.maximum(mean, 1.0)[rounds], rounds


def _fit(columns: Floats, y: Floats, rounds: NDArray[np.int64], num_asked: int) -> Fit:
    """The first coefficients with their covariance, by reweighted least squares within rounds."""
    norm = np.sqrt((columns**2).sum(axis=0))
    columns = columns[:, norm > 0] / norm[norm > 0]
    weight = np.ones(len(y))
    for _ in range(_NUM_REWEIGHTINGS):
        a, b, leverage = _within(columns, y, rounds, weight)
        inverse, identified = _inverse(a, num_asked)
        residual = (b - a @ (inverse @ (a.T @ b))) / np.sqrt(weight)
        spread = 1.4826 * float(np.median(np.abs(residual)))
        if spread == 0:
            break
        new = np.minimum(1.0, _HUBER * spread / np.maximum(np.abs(residual), 1e-300))
        if np.abs(new - weight).max() < 1e-4:
            break
        weight = new
    a, b, leverage = _within(columns, y, rounds, weight)
    inverse, identified = _inverse(a, num_asked)
    beta = inverse @ (a.T @ b)
    leverage = np.minimum(leverage + np.einsum("ij,jk,ik->i", a, inverse, a), 0.95)
    score = a * ((b - a @ beta) / (1 - leverage))[:, None]
    covariance = inverse @ (score.T @ score) @ inverse
    unit = norm[:num_asked]
    return Fit(beta[:num_asked] / unit, covariance[:num_asked, :num_asked] / np.outer(unit, unit), np.array(identified))


def _within(columns: Floats, y: Floats, rounds: NDArray[np.int64], weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Columns and y without the (weighted) mean of their round, times the root of the weight; leverage of the means."""
    root = np.sqrt(weight)
    without = [c - _mean(c, rounds, weight)[rounds] for c in (*columns.T, y)]
    leverage = weight / np.bincount(rounds, weight)[rounds]
    return np.stack(without[:-1], axis=1) * root[:, None], without[-1] * root, leverage


def _mean(x: Floats, rounds: NDArray[np.int64], weight: Floats) -> Floats:
    return np.bincount(rounds, x * weight) / np.bincount(rounds, weight)


def _inverse(a: Floats, num_asked: int) -> tuple[Floats, list[bool]]:
    """The generalised inverse of a'a, and which of the first coefficients it determines."""
    _, singular, v = np.linalg.svd(a, full_matrices=False)
    kept = singular > 1e-6 * max(float(singular.max(initial=0.0)), 1e-300)
    basis = v[kept]
    inverse = (basis.T / singular[kept] ** 2) @ basis
    determined = (basis**2).sum(axis=0)
    return inverse, [bool(determined[i] > 1 - 1e-6) for i in range(num_asked)]


def student(freedom: int) -> float:
    """The 97.5% quantile of Student's t over that of the normal distribution (Cornish and Fisher's expansion)."""
    z, n = 1.96, float(max(freedom, 1))
    return 1 + (z**2 + 1) / (4 * n) + (5 * z**4 + 16 * z**2 + 3) / (96 * n**2)
