"""Whether a signal was sent to this process alone or to its whole group, which the kernel does not say.

A terminal, `timeout` and schedulers tell the group, so that the programs started here know already; `kill` and Docker
tell one process, which has to pass it on. A forked process of the group that does nothing but say what it is told of
is the witness.
"""

import contextlib
import os
import select
import signal
import struct
import time
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Self

_RECORD = struct.Struct("=Bd")
_WITNESS_S = 0.3
"""How long it is waited for what the witness says; what it said so long ago is of the same signal."""


class Bystander:
    """The witness, while it is entered; it ends with this process, however that ends.

    Args:
        signums: The signals that are asked of.
    """

    def __init__(self, signums: Sequence[int]) -> None:
        self._signums = signums
        self._told: dict[int, float] = {}
        self._pid = self._says = self._ends = -1

    def __enter__(self) -> Self:
        self._says, says = os.pipe()
        ends, self._ends = os.pipe()
        # A signal that comes before the witness listens would end it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._signums)
        try:
            self._pid = os.fork()
            if self._pid == 0:
                _stand_by(self._signums, before, says, ends, self._ends)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(says)
        os.close(ends)
        os.set_blocking(self._says, False)  # one handler may run inside another
        return self

    def __exit__(self, *exc_info: object) -> None:
        os.close(self._ends)
        os.close(self._says)
        with contextlib.suppress(ChildProcessError):  # who ignores SIGCHLD has no children to wait for
            os.waitpid(self._pid, 0)

    def was_told_of(self, signum: int) -> bool:
        """Whether the signal that has just come here came to the whole group; to be called by its handler."""
        until = time.monotonic() + _WITNESS_S
        while (left := until - time.monotonic()) > 0 and not self._knows(signum):
            if not select.select([self._says], [], [], left)[0]:
                break
            with contextlib.suppress(BlockingIOError):
                said = os.read(self._says, _RECORD.size)
                if not said:  # somebody has killed the witness
                    break
                number, when = _RECORD.unpack(said)
                self._told[number] = when
        return self._knows(signum)

    def _knows(self, signum: int) -> bool:
        return time.monotonic() - self._told.get(signum, float("-inf")) < 2 * _WITNESS_S


def _stand_by(signums: Sequence[int], mask: Iterable[int], says: int, ends: int, theirs: int) -> None:
    """The witness's life."""

    def say(signum: int, frame: FrameType | None) -> None:
        os.write(says, _RECORD.pack(signum, time.monotonic()))

    try:
        os.close(theirs)
        for signum in signums:
            signal.signal(signum, say)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.read(ends, 1)  # until nobody holds the other end any more
    finally:
        os._exit(0)
