"""Whether a signal was sent to this process alone or to its whole group, which the kernel does not say.

A terminal, `timeout` and schedulers tell the group, so that the programs started here know already; `kill` and Docker
tell one process, which has to pass it on. A process of the group that does nothing but say what it is told of is the
witness: this file, as a program of its own, since whoever asks may have threads and cannot be forked.
"""

import contextlib
import math
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
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

    def __enter__(self) -> Self:
        # A signal that comes before the witness listens would end it; the mask is inherited.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._signums)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, *map(str, self._signums)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self._process.stdout is not None
        self._says = self._process.stdout.fileno()
        os.set_blocking(self._says, False)  # one handler may run inside another
        return self

    def __exit__(self, *exc_info: object) -> None:
        with self._process:  # closes what holds it, and waits
            pass

    def was_told_of(self, signum: int) -> bool:
        """Whether the signal that has just come here came to the whole group; to be called by its handler."""
        until = time.monotonic() + _WITNESS_S
        poll = select.poll()  # `select` takes no number above 1,023
        poll.register(self._says, select.POLLIN)
        while (left := until - time.monotonic()) > 0 and not self._knows(signum):
            if not poll.poll(math.ceil(left * 1e3)):
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


def stand_by(signums: Sequence[int]) -> None:
    """The witness's life: until nobody holds the other end of its standard input any more."""

    def say(signum: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            os.write(sys.stdout.fileno(), _RECORD.pack(signum, time.monotonic()))

    for signum in signums:
        signal.signal(signum, say)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signums)
    os.read(sys.stdin.fileno(), 1)


if __name__ == "__main__":
    stand_by(list(map(int, sys.argv[1:])))
