"""Learning that has diverged, told before anybody acts by what is left of the policy.

updates -> |TD errors|, weights -> numbers? -> priorities, whoever acts
"""

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import RunError


def require_numbers(values: NDArray[np.float32], num_updates: int, what: str) -> NDArray[np.float32]:
    """Weights or errors, as they came of updates.

    Args:
        values: Any of them.
        num_updates: Updates behind them, as far as is known.
        what: They are called.

    Raises:
        RunError: One is NaN or infinite, although environments gave finite numbers only (environments/faults.py).
    """
    if not np.isfinite(values).all():
        raise RunError(
            f"learning has diverged: after {num_updates:,} updates, {what} are no longer all finite numbers; lower "
            "learning_rate, or scale rewards and observations down (normalize_rewards, normalize_observations)"
        )
    return values
