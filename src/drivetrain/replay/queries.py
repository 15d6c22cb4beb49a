"""Questions about all priorities of a replay: how large, how many, of which rows.

The native side answers in short holds of the lock, so others go on writing meanwhile.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.core.docstrings import with_fields
from drivetrain.replay import _native, checks

EPSILON = 1e-6
"""What is added to every priority: kPriorityEpsilon in cpp/include/drivetrain/exponent.hpp."""
MOST = float(np.finfo(np.float32).max)
"""That a priority can be."""


def priority_of(leaves: Any, alpha: float) -> npt.NDArray[np.float64]:
    """The priorities that leaves were made from, up to rounding; NaN of NaN. `alpha` is not 0.

    None is beyond what one can be: an alpha close to 0 reads leaves by a larger one as infinite.
    """
    with np.errstate(over="ignore", under="ignore"):
        return np.minimum(np.maximum(np.float64(leaves) ** (1 / alpha) - EPSILON, 0.0), MOST)


@with_fields
@dataclass(frozen=True, kw_only=True)
class PriorityStats:
    """The leaves of a replay: (priority + 1e-6)^alpha of each row, to which draws are proportional.

    `count`, `sum` and `mean` are of one instant. Where the replay keeps its extremes
    (`weights_by="buffer"` or `initial_priority="buffer_max"`) so are `minimum` and `maximum`; elsewhere
    they are what a walk over all rows meets while others may write. All are by one alpha, whoever changes it
    meanwhile. Rows being written do not count.
    """

    count: int
    """Rows that can be drawn."""
    minimum: float
    """Smallest leaf; NaN when there is none."""
    maximum: float
    """Largest leaf; NaN when there is none."""
    sum: float
    """Sum of all leaves."""
    alpha: float
    """The exponent that the leaves were made with."""

    @property
    def mean(self) -> float:
        """Mean leaf; NaN when there is none."""
        return self.sum / self.count if self.count else math.nan

    @property
    def minimum_priority(self) -> float:
        """Smallest priority; NaN when there is none, or when alpha is 0 and priorities are not kept."""
        return self._priority(self.minimum)

    @property
    def maximum_priority(self) -> float:
        """Largest priority; NaN as for the smallest."""
        return self._priority(self.maximum)

    def _priority(self, leaf: float) -> float:
        return float(priority_of(leaf, self.alpha)) if self.alpha else math.nan


def priority_stats(table: _native.Table) -> PriorityStats:
    """Statistics of all leaves of a prioritized table."""
    count, least, largest, total, alpha = table.leaf_stats()
    return PriorityStats(
        count=count,
        minimum=least or math.nan,
        maximum=largest or math.nan,
        sum=total,
        alpha=alpha,
    )


def priorities(table: _native.Table, keys: Any, capacity: int) -> npt.NDArray[np.float64]:
    """Priorities of rows by their keys, NaN for stale keys.

    Raises:
        InvalidInput: Keys that this table never gave out.
    """
    fitting = checks.fitting_keys(keys, capacity)
    out = np.empty(fitting.shape, np.float64)
    if not table.read_priorities(fitting, out):
        raise AssertionError("keys that fit were turned down")
    return np.minimum(out, MOST, out=out)  # as in `priority_of`
