"""Whether recording changed what a program did, and not only how long it took.

Blocks of a round are as many steps each. If those in which everything was muted hold, again and again, other
numbers of steps of a kind or of spans, then a slower program does other work (it learns by the clock, or waits less),
and no subtraction gives what it would have done.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.calibration.regression import LEAST_MUTED
from drivetrain.scope.trace.blocks import Blocks
from drivetrain.scope.trace.events import INSTRUMENTS

LEAST_CHANGE = 0.05
"""Of a count: what is smaller moves no total by more than corrections claim to know."""
LEAST_T = 5.0
"""In standard errors: one false alarm in a million counts, were they normal; they are not quite."""
_STEPS = ("marked steps", "steps of simulators", "optimizer steps")


def changes(blocks: Blocks) -> list[str]:
    """What muting everything changed, one sentence each."""
    names = [f"spans by {instrument}" for instrument in INSTRUMENTS] + list(_STEPS)
    counts = np.concatenate([blocks.spans, blocks.steps], axis=1).astype(np.float64)
    found: list[str] = []
    for name, count in zip(names, counts.T, strict=True):
        with_ns, without = _by_round(count, blocks)
        if len(with_ns) < LEAST_MUTED:
            continue
        difference = without - with_ns
        error = difference.std(ddof=1) / len(difference) ** 0.5
        mean = float(difference.mean())
        level = float(max(with_ns.mean(), without.mean()))
        if level and abs(mean) > LEAST_CHANGE * level and abs(mean) > LEAST_T * error:
            found.append(
                f"{name} are {with_ns.mean():.4g} in a block that is recorded and {without.mean():.4g} in one of as "
                "many steps that is not: recording changes what this program does, and its times are not corrected."
            )
    return found


def _by_round(count: NDArray[np.float64], blocks: Blocks) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean count per round, of blocks that are recorded and of those that are muted; rounds that have both."""
    _, rounds = np.unique(blocks.round, return_inverse=True)
    means: list[NDArray[np.float64]] = []
    num: list[NDArray[np.int64]] = []
    for wanted in (blocks.mask == 0, blocks.all_muted):
        size = int(rounds.max(initial=-1)) + 1
        num.append(np.bincount(rounds[wanted], minlength=size))
        means.append(np.bincount(rounds[wanted], count[wanted], size) / np.maximum(num[-1], 1))
    both = (num[0] > 0) & (num[1] > 0)
    return means[0][both], means[1][both]


def of_all(blocks: Sequence[Blocks]) -> list[str]:
    """Of several threads; each change once."""
    return list(dict.fromkeys(change for one in blocks if len(one) for change in changes(one)))
