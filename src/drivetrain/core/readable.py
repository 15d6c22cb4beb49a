"""Waiting until there is something to read."""

import math
import select
from collections.abc import Iterable


def readable(files: Iterable[int], timeout_s: float | None = None) -> list[int]:
    """Which of these descriptors have something to read, or have ended; waits until one does.

    By `poll`, since `select` takes none above 1,023, as those of a caller with many open files are.

    Args:
        files: The descriptors.
        timeout_s: For which it waits at most; None: as long as it takes.
    """
    poll = select.poll()
    for fd in files:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(None if timeout_s is None else math.ceil(timeout_s * 1e3))]
