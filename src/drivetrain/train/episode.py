"""What a played episode came to, in training as in evaluation."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

_KEYS = ("is_success", "success")  # Gymnasium-Robotics' manipulation and SB3; its mazes and Meta-World


class Episode(NamedTuple):
    """A finished episode."""

    total_reward: float
    length: int
    success: float = math.nan
    """1 or 0, or what lies between, by its last step's info; NaN where the environment says nothing of it."""


def success_of(info: Any) -> float:
    """What a last step's info says of success: `is_success`, or else `success`, a truth or in 0..1; NaN: nothing."""
    told = cast("dict[str, Any]", info) if isinstance(info, dict) else {}
    for key in _KEYS:
        said = _of_one(told.get(key))
        if isinstance(said, bool | int | float) and 0 <= said <= 1:  # others count something, and no share is of them
            return float(said)
    return math.nan


def _of_one(said: Any) -> Any:
    """The number of an array of one, of whatever library; anything else as it is."""
    try:
        return said.item()
    except Exception:  # a stranger's, and most have no such method
        return said


def success_rate(episodes: Iterable[Episode]) -> float | None:
    """The mean success of those of which something is said; None where it is of none."""
    said = [one.success for one in episodes if math.isfinite(one.success)]
    return sum(said) / len(said) if said else None


def succeeded(rate: float | None) -> str:
    """The end of a sentence about episodes."""
    return "" if rate is None else f", {rate:.0%} of which succeeded"
