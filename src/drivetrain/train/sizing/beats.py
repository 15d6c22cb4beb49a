"""What shows that environments come back while they are measured.

worker: notes each turn to an environment --shared memory--> who asked: looks for how long it goes on
"""

import mmap
import time


class Beats:
    """Since when a worker has been at one of its environments.

    Args:
        fd: Of a file of `NBYTES` bytes, which both sides have open.
    """

    NBYTES = 8

    def __init__(self, fd: int) -> None:
        self._since = memoryview(mmap.mmap(fd, self.NBYTES)).cast("q")  # nanoseconds of the monotonic clock; 0: at none

    def __call__(self) -> None:
        """Note that it turns to one now."""
        self._since[0] = time.monotonic_ns()

    def end(self) -> None:
        """Note that there are no more."""
        self._since[0] = 0

    @property
    def working_s(self) -> float:
        """Seconds since it has turned to one; 0 where it is at none."""
        since = self._since[0]
        return (time.monotonic_ns() - since) * 1e-9 if since else 0.0
