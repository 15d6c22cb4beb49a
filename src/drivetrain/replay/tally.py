"""The tally: what two sides were granted and have done, in shared memory, and who waits for whom.

    | Mutex | word: producers wait | word: consumers wait | stopping | lines of producers, of consumers |

    line = | pid, start time | granted | committed |         of one participant

A pid of 0 is nobody known, a negative one somebody who died; both lines are free.

Whoever wants to act waits until a rule allows it (`wait`), which grants it; and commits what it has
done. Every change made under the lock is one aligned 64-bit store, so a process killed inside leaves
nothing to repair, and its unfinished grant is returned by `give_back`. The rules are the caller's:
`Limiter` has one for any program, the ledger of `drivetrain.train` one for a whole run.
"""

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from drivetrain.core._native import Mutex, futex_wait, futex_wake, process_is_alive, process_start_time
from drivetrain.core.segments import Segment

_LINE = 64
_WAIT_S = 0.2  # a lost wake-up costs this much, never a hang; the dead are looked for as often
_LOCK_S = 0.1  # for which nobody keeps the lock who goes on
_PID, _START, _GRANTED, _COMMITTED = range(4)

Decision = TypeVar("Decision")


class Side(IntEnum):
    """Who inserts, and who samples."""

    PRODUCERS = 0
    CONSUMERS = 1


class Counts(NamedTuple):
    """What the tally says at one instant."""

    granted: int
    """Inserts granted, over all producers."""
    committed: int
    """Inserts done."""
    updates: int
    """Updates done, over all consumers."""
    taken: int
    """Updates granted."""


class Participant(NamedTuple):
    """One line of the tally: a process that registered."""

    pid: int
    is_alive: bool
    num_unfinished: int
    """Granted and not committed."""


class Tally:
    """The shared counters; each process holds a view.

    Args:
        segment: Of `nbytes_for` bytes.
        num_lines: Producers and consumers there can be; the same in every process.
        initialize: True for the creator alone.
    """

    def __init__(self, segment: Segment, num_lines: tuple[int, int], *, initialize: bool = False) -> None:
        self._memory = segment.payload
        self._mutex = Mutex(self._memory, 0, initialize=initialize)
        start = _mutex_nbytes()
        self._words = (start, start + _LINE)
        numbers = np.frombuffer(self._memory, np.int64, offset=start + 2 * _LINE)
        self._stopping: NDArray[np.int64] = numbers[:1]
        lines = numbers[1 : 1 + 4 * sum(num_lines)].reshape(-1, 4)
        self._lines: tuple[NDArray[np.int64], NDArray[np.int64]] = (lines[: num_lines[0]], lines[num_lines[0] :])
        self._looked_s = time.monotonic()  # when the dead were looked for

    @staticmethod
    def nbytes_for(num_lines: tuple[int, int]) -> int:
        """Bytes of a segment for so many producers and consumers."""
        return _mutex_nbytes() + 2 * _LINE + 8 * (1 + 4 * sum(num_lines))

    def wait(
        self, side: Side, decide: Callable[[Counts], Decision | None], timeout_s: float | None = None
    ) -> Decision | None:
        """Call `decide` under the lock until it decides; None after `timeout_s` seconds without that.

        Between calls this sleeps until the side is woken. What participants that have died left
        unfinished is given back meanwhile, however often that is. A process that was stopped may keep
        the lock all the time.
        """
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            word = int.from_bytes(self._memory[self._words[side] : self._words[side] + 4], "little")
            with self._mutex.within(max(_LOCK_S, deadline - time.monotonic())) as entered:
                decision = decide(self.counts()) if entered else None
            left_s = deadline - time.monotonic()
            if decision is not None or left_s <= 0:
                return decision
            is_woken = futex_wait(self._memory, self._words[side], word, min(_WAIT_S, left_s))
            if not is_woken or time.monotonic() - self._looked_s >= _WAIT_S:  # others may wake it all the time
                self._bury()

    def keeper(self) -> int:
        """The thread that keeps the lock and does not go on, by its number in the kernel; 0: nobody."""
        with self._mutex.within(_LOCK_S) as entered:
            return 0 if entered else self._mutex.holder

    def grant(self, side: Side, index: int, amount: int) -> None:
        """Note a grant; call it from `decide`, which holds the lock."""
        self._lines[side][index, _GRANTED] += amount

    def revoke(self, side: Side, index: int) -> None:
        """Return what was granted and not committed; call it from `decide`, too."""
        self._give_back(side, index, 0)

    def commit(self, side: Side, index: int, amount: int, *, unless_stopping: bool = False) -> Counts | None:
        """Note what was done; the counts after that.

        None, and nothing is noted, `unless_stopping` and everybody was told to end: whoever sees that they were, and
        reads the counts under the lock, has read the last ones.
        """
        with self._mutex:
            if unless_stopping and self.stopping:
                return None
            self._lines[side][index, _COMMITTED] += amount
            return self.counts()

    def commit_granted(self, side: Side, index: int, amount: int) -> bool:
        """Note what was done of what this process is granted still; False: not so much, as its line was freed."""
        with self._mutex:
            is_granted = self.is_mine(side, index) and amount <= self.unfinished(side, index)
            if is_granted:
                self._lines[side][index, _COMMITTED] += amount
            return is_granted

    def finish(self, side: Side, index: int, *, but: int) -> None:
        """Note as done what was granted and not committed, but so much of it."""
        with self._ending():
            self._lines[side][index, _COMMITTED] += self._left(side, index, but)
        self.wake_all()

    def give_back(self, side: Side, index: int, *, but: int = 0) -> int:
        """Return what was granted and not committed, but so much of it; how much that was."""
        with self._ending():
            unfinished = self._give_back(side, index, but)
        self.wake_all()
        return unfinished

    def counts(self) -> Counts:
        """The numbers now; consistent with each other only under the lock or at rest."""
        (granted, committed), (taken, updates) = (lines[:, _GRANTED:].sum(axis=0).tolist() for lines in self._lines)
        return Counts(granted, committed, updates, taken)

    def unfinished(self, side: Side, index: int) -> int:
        """What one participant was granted and has not committed."""
        granted, committed = self._lines[side][index, _GRANTED:].tolist()
        return granted - committed

    def committed(self, side: Side, index: int) -> int:
        """What one participant has done; one aligned load."""
        return int(self._lines[side][index, _COMMITTED])

    @property
    def stopping(self) -> bool:
        """Whether everybody was told to end."""
        return bool(self._stopping[0])

    def stop(self) -> None:
        """Tell everybody to end, and wake those who wait."""
        self._stopping[0] = 1
        self.wake_all()

    def wake(self, side: Side) -> None:
        """Let everybody who waits on a side decide again."""
        futex_wake(self._memory, self._words[side])

    def wake_all(self) -> None:
        """The same on both sides."""
        for side in Side:
            self.wake(side)

    # Participants -------------------------------------------------------------------------------

    def register(self, side: Side) -> int | None:
        """Take a line for this process: a free one, or that of a dead one; None when all are taken."""
        self._bury()
        lines, pid = self._lines[side], os.getpid()
        with self._mutex:
            index = int(np.argmin(np.where(lines[:, _PID] < 0, 1, 2 * lines[:, _PID])))  # 0 first, then the dead
            if lines[index, _PID] > 0:
                return None
            lines[index, _START] = process_start_time(pid)
            lines[index, _PID] = pid  # last: with it the line is taken
        return index

    def unregister(self, side: Side, index: int) -> None:
        """Free a line of this process and return what is unfinished on it."""
        with self._ending():
            self._give_back(side, index, 0)
            self._lines[side][index, _PID] = 0
        self.wake_all()

    def is_mine(self, side: Side, index: int) -> bool:
        """Whether a line was taken by this process, and not by one that it was forked from."""
        return int(self._lines[side][index, _PID]) == os.getpid()

    def participants(self, side: Side) -> list[Participant]:
        """Who has registered and did not leave in good order; takes no lock."""
        return [
            Participant(abs(pid), pid > 0 and process_is_alive(pid, start), granted - committed)
            for pid, start, granted, committed in self._lines[side].tolist()
            if pid
        ]

    def _bury(self) -> None:
        """Free the lines of dead processes and return what they left unfinished."""
        self._looked_s = time.monotonic()
        for side in Side:
            for index, (pid, start, _, _) in enumerate(self._lines[side].tolist()):
                if pid > 0 and not process_is_alive(pid, start):
                    with self._mutex.within(_LOCK_S) as entered:
                        # Unless another one has buried it since, and a third has taken the line.
                        if entered and self._lines[side][index, :_GRANTED].tolist() == [pid, start]:
                            self._give_back(side, index, 0)
                            self._lines[side][index, _PID] = -pid
                    self.wake_all()

    def _ending(self) -> contextlib.AbstractContextManager[object]:
        """The lock, for what ends a grant.

        Nothing, if somebody keeps it who does not go on: only another thread of this process might change the line, and
        each store is whole. Nor where this very thread has it: a turn that nobody goes on with, and a participation,
        are collected anywhere.
        """
        is_locked_here = self._mutex.holder == threading.get_native_id()
        return contextlib.nullcontext() if is_locked_here else self._mutex.within(_LOCK_S)

    def _left(self, side: Side, index: int, but: int) -> int:
        return max(self.unfinished(side, index) - but, 0)

    def _give_back(self, side: Side, index: int, but: int) -> int:
        unfinished = self._left(side, index, but)
        self._lines[side][index, _GRANTED] -= unfinished
        return unfinished


def _mutex_nbytes() -> int:
    return -(-Mutex.NBYTES // _LINE) * _LINE
