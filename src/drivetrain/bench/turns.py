"""Who is measured when: everybody in each round, beginning one further each time.

A slow minute of the machine hits all alike then, and nobody always follows the same contender, whose caches it finds.
"""

from collections.abc import Sequence
from typing import TypeVar

Contender = TypeVar("Contender")


def in_turn(contenders: Sequence[Contender], number: int) -> list[Contender]:
    """Everybody once, in the order of round `number`, which counts from 0."""
    first = number % max(1, len(contenders))
    return [*contenders[first:], *contenders[:first]]
