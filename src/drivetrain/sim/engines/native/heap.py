"""Large arrays of a kernel on the heap, where they would be more than a thread's stack has.

The heap is one allocation for a call of the kernel, laid out while the kernel is written. Blocks take from its top and
give back when they end, as on a stack, so blocks that are not inside each other lie in the same place.
"""

from collections.abc import Generator
from contextlib import contextmanager

LEAST_SIZE = 256
"""Elements of an array from which on it lies there; smaller ones stay on the stack."""


class Heap:
    """Which part of the heap is taken, in elements of each lane."""

    def __init__(self) -> None:
        """Nothing is taken."""
        self.top = 0
        self.most = 0
        """Of all that was ever taken at once."""
        self.total = 0
        """Of all arrays together."""

    def place_for(self, size: int) -> int | None:
        """Where an array begins, taken from now on; None for a small one."""
        if size < LEAST_SIZE:
            return None
        place = self.top
        self.top += size
        self.most = max(self.most, self.top)
        self.total += size
        return place

    @contextmanager
    def scope(self) -> Generator[None]:
        """A block: what it takes is free again behind it."""
        before = self.top
        yield
        self.top = before
