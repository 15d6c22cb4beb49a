"""What shows that environments come back while they are measured.

worker: counts before each turn to an environment --shared memory--> who asked: looks whether it goes on counting
"""

import mmap
import time

_LOOK_S = 0.1


class Beats:
    """How often a worker has turned to one of its environments; 0 where it is at none.

    Args:
        fd: Of a file of `NBYTES` bytes, which both sides have open.
    """

    NBYTES = 8

    def __init__(self, fd: int) -> None:
        self._turns = memoryview(mmap.mmap(fd, self.NBYTES)).cast("Q")

    def __call__(self) -> None:
        """Note one turn more."""
        self._turns[0] += 1

    def end(self) -> None:
        """Note that there are no more."""
        self._turns[0] = 0

    @property
    def count(self) -> int:
        """As noted."""
        return self._turns[0]


class Patience:
    """How long an environment has not come back, by the looks of who asked; time without a look hardly counts.

    That is time in which the whole job was suspended.
    """

    interval_s = _LOOK_S
    """Between looks."""

    def __init__(self, beats: Beats) -> None:
        self._beats = beats
        self._last: int = 0
        self._looked_s, self._waited_s = time.monotonic(), 0.0

    def look(self) -> float:
        """Seconds that the present turn takes so far."""
        now_s, count = time.monotonic(), self._beats.count
        self._waited_s += min(now_s - self._looked_s, 2 * _LOOK_S)
        if count == 0 or count != self._last:
            self._waited_s = 0.0
        self._looked_s, self._last = now_s, count
        return self._waited_s
