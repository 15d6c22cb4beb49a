"""What a span costs in a program, from its blocks.

    CPU time of a block = round + steps x work + spans x work + recorded spans x cost + noise

Blocks of a round are close in time and random in order; differences in what they had to do (an episode's end, an
update) are explained by their counts. Noise has long tails, so blocks far from the fit weigh less (Huber 1964), and
standard errors come from the residuals themselves (MacKinnon and White 1985, HC3), not from an assumed spread.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.calibration.blocks import MUTE_ALL, Blocks
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


def slowdown(blocks: Blocks) -> Estimate | None:
    """By which share recorded blocks take longer than muted ones, whatever the reason; None where too few are muted.

    Of blocks in which everything was muted or nothing was, by their work alone: also what is not in spans shows.
    """
    whole = blocks.where((blocks.mask == 0) | (blocks.mask == MUTE_ALL))
    num_muted = int((whole.mask != 0).sum())
    if num_muted < LEAST_MUTED or num_muted == len(whole):
        return None
    scale, rounds = _scale(whole)
    columns = np.concatenate([whole.steps, whole.spans], axis=1) / scale[:, None]
    is_recorded = (whole.mask == 0).astype(np.float64)[:, None]
    (found,) = _fit(np.concatenate([is_recorded, columns], axis=1), whole.cpu_ns / scale, rounds, 1)
    return found and Estimate(found.ns, found.se_ns * _student(num_muted - 1))


def estimate(blocks: Blocks) -> list[Estimate | None]:
    """Per instrument its cost in one thread; None where these blocks do not identify it."""
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
    columns = np.concatenate([recorded[:, asked], blocks.steps, blocks.spans], axis=1).astype(np.float64)
    scale, rounds = _scale(blocks)
    fit = _fit(columns / scale[:, None], blocks.cpu_ns / scale, rounds, len(asked))
    for place, number in enumerate(asked):
        if fit[place] is not None:
            least = blocks.muted[:, number].sum()
            one = fit[place]
            assert one is not None
            found[number] = Estimate(one.ns, one.se_ns * _student(int(least) - 1))
    return found


def _scale(blocks: Blocks) -> tuple[Floats, NDArray[np.int64]]:
    """Mean time of the blocks of each one's round, and the rounds: one of long blocks has as much noise more."""
    _, rounds = np.unique(blocks.round, return_inverse=True)
    mean = _mean(blocks.cpu_ns.astype(np.float64), rounds, np.ones(len(blocks)))
    return np.maximum(mean, 1.0)[rounds], rounds


def _fit(columns: Floats, y: Floats, rounds: NDArray[np.int64], num_asked: int) -> list[Estimate | None]:
    """The first coefficients with their standard errors, by reweighted least squares within rounds."""
    norm = np.sqrt((columns**2).sum(axis=0))
    columns = columns[:, norm > 0] / norm[norm > 0]  # what is asked for is never all 0
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
    variance = np.diag(inverse @ (score.T @ score) @ inverse)
    return [
        Estimate(float(beta[i] / norm[i]), float(np.sqrt(variance[i])) / float(norm[i])) if identified[i] else None
        for i in range(num_asked)
    ]


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


def _student(freedom: int) -> float:
    """The 97.5% quantile of Student's t over that of the normal distribution (Cornish and Fisher's expansion)."""
    z, n = 1.96, float(max(freedom, 1))
    return 1 + (z**2 + 1) / (4 * n) + (5 * z**4 + 16 * z**2 + 3) / (96 * n**2)
