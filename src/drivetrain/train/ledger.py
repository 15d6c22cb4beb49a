"""The ledger: integers in shared memory that keep updates per environment step at their ratio.

    due(s)  = floor(ratio * max(0, s - warmup))      updates that s steps call for
    owed(s) = due(s) - updates

An actor is granted steps only while owed(all granted steps) <= tolerance, so with grants of n
steps owed never exceeds tolerance + ceil(ratio * n). The learner takes no more than
owed(committed steps), so it never runs ahead. A step counts when its transition is in the replay.
At the end updates = due(total_steps), exactly.

    | Mutex | word: actors wait | word: learner waits | stopping, updates | granted, committed per actor |

Every change made under the lock is one aligned 64-bit store, so a process killed inside leaves
nothing to repair: its unfinished grant is returned by `give_back`.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.core._native import Mutex, futex_wait, futex_wake
from drivetrain.core.segments import Segment, SegmentHandle
from drivetrain.train.config import TrainConfig

_LINE = 64
_WAIT_S = 0.2  # a lost wake-up costs this much, never a hang


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The arithmetic of the ledger, without memory or processes."""

    total_steps: int
    """Environment steps of the run."""
    warmup_steps: int
    """Steps that call for no updates."""
    ratio: Fraction
    """Updates per step after that."""
    tolerance: int
    """Updates owed up to which steps are still granted."""
    updates_per_call: int
    """Most updates the learner takes at once."""

    @classmethod
    def of(cls, config: TrainConfig) -> "Rules":
        """The rules of a run."""
        return cls(
            total_steps=config.run.total_steps,
            warmup_steps=config.updates.warmup_steps,
            ratio=config.updates.update_ratio,
            tolerance=config.run.tolerance,
            updates_per_call=config.updates.updates_per_call,
        )

    def due(self, steps: int) -> int:
        """Updates that `steps` environment steps call for, in exact arithmetic."""
        after = max(0, steps - self.warmup_steps)
        return after * self.ratio.numerator // self.ratio.denominator

    def grantable(self, wanted: int, granted: int, updates: int) -> int:
        """Steps that may be granted now, of `wanted`, after `granted` in all."""
        if self.due(granted) - updates > self.tolerance:
            return 0
        return min(wanted, self.total_steps - granted)

    def takeable(self, committed: int, updates: int) -> int:
        """Updates that the learner should do now, after `committed` steps and `updates` updates.

        A full call, or what the tolerance lets accumulate, or the remainder at the end. Actors
        that may not go on have more than `tolerance` updates owed, so learner and actors never
        wait for each other.
        """
        owed = self.due(committed) - updates
        enough = min(self.updates_per_call, self.tolerance + 1)
        if owed >= enough or committed == self.total_steps:
            return min(owed, self.updates_per_call)
        return 0


class Grant(NamedTuple):
    """Leave to take `num_steps` environment steps, the first being the run's step `start`."""

    start: int
    num_steps: int


class Counts(NamedTuple):
    """What the ledger says at one instant."""

    granted: int
    """Steps granted, over all actors."""
    committed: int
    """Steps whose transitions are in the replay."""
    updates: int
    """Updates done."""


class Ledger:
    """The shared ledger. One per run; actors, learner and supervisor each hold one view.

    Args:
        segment: Of kind "ledger".
        rules: The same in every process.
        num_actors: The same in every process.
        initialize: True for the creator alone.
    """

    def __init__(self, segment: Segment, rules: Rules, num_actors: int, *, initialize: bool = False) -> None:
        self.rules = rules
        self._segment = segment
        self._memory = segment.payload
        self._mutex = Mutex(self._memory, 0, initialize=initialize)
        start = -(-Mutex.NBYTES // _LINE) * _LINE
        self._actors_word = start
        self._learner_word = start + _LINE
        words = np.frombuffer(self._memory, np.int64, offset=start + 2 * _LINE)
        self._flags: NDArray[np.int64] = words[:2]  # stopping, updates
        self._granted: NDArray[np.int64] = words[2 : 2 + num_actors]
        self._committed: NDArray[np.int64] = words[2 + num_actors : 2 + 2 * num_actors]

    @classmethod
    def create(cls, rules: Rules, num_actors: int) -> "Ledger":
        """A new ledger, everything zero, owned by this process."""
        mutex_nbytes = -(-Mutex.NBYTES // _LINE) * _LINE
        segment = Segment.create("ledger", mutex_nbytes + 2 * _LINE + 8 * (2 + 2 * num_actors))
        return cls(segment, rules, num_actors, initialize=True)

    @classmethod
    def attach(cls, handle: SegmentHandle, rules: Rules, num_actors: int) -> "Ledger":
        """A view of another process's ledger."""
        return cls(Segment.attach(handle, "ledger"), rules, num_actors)

    def handle(self) -> SegmentHandle:
        """What another process attaches by."""
        return self._segment.handle()

    def close(self) -> None:
        """Let go of the memory; this view cannot be used afterwards."""
        self._segment.close()

    # Actors -------------------------------------------------------------------------------------

    def acquire(self, actor: int, wanted: int) -> Grant | None:
        """Wait for leave to take up to `wanted` steps; None when the run is over or stops.

        Near the end it waits until every actor has committed: steps of one that dies come back.
        """
        while True:
            word = self._word(self._actors_word)
            with self._mutex:
                counts = self.counts()
                if self.stopping or counts.committed == self.rules.total_steps:
                    return None
                num_steps = self.rules.grantable(wanted, counts.granted, counts.updates)
                if num_steps > 0:
                    self._granted[actor] += num_steps
                    return Grant(counts.granted, num_steps)
            futex_wait(self._memory, self._actors_word, word, _WAIT_S)

    def commit(self, actor: int, num_steps: int) -> None:
        """Report that granted steps are in the replay."""
        with self._mutex:
            self._committed[actor] += num_steps
            counts = self.counts()
        if self.rules.takeable(counts.committed, counts.updates) > 0:
            futex_wake(self._memory, self._learner_word)
        if counts.committed == self.rules.total_steps:
            self._wake_all()

    def give_back(self, actor: int) -> int:
        """Return what a dead actor was granted and did not commit; how many steps that was."""
        with self._mutex:
            num_lost = int(self._granted[actor] - self._committed[actor])
            self._granted[actor] = self._committed[actor]
        self._wake_all()
        return num_lost

    # Learner ------------------------------------------------------------------------------------

    def wait_for_updates(self) -> int:
        """Wait until updates are due, and say how many to do now; 0 when the run is over or stops."""
        while True:
            word = self._word(self._learner_word)
            with self._mutex:
                counts = self.counts()
            count = 0 if self.stopping else self.rules.takeable(counts.committed, counts.updates)
            if count > 0 or self.stopping or self.is_finished(counts):
                return count
            futex_wait(self._memory, self._learner_word, word, _WAIT_S)

    def complete(self, num_updates: int) -> None:
        """Report updates whose priorities and weights are published."""
        with self._mutex:
            self._flags[1] += num_updates
        futex_wake(self._memory, self._actors_word)

    # Everybody ----------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """The numbers now; consistent with each other only under the lock or at rest."""
        return Counts(int(self._granted.sum()), int(self._committed.sum()), self.updates)

    @property
    def updates(self) -> int:
        """Updates done; one aligned load."""
        return int(self._flags[1])

    @property
    def stopping(self) -> bool:
        """Whether the run was told to end early."""
        return bool(self._flags[0])

    def is_finished(self, counts: Counts) -> bool:
        """Whether all steps are taken and all updates they call for are done."""
        total = self.rules.total_steps
        return counts.committed == total and counts.updates == self.rules.due(total)

    def stop(self) -> None:
        """Tell everybody to end: no more grants, no more updates."""
        self._flags[0] = 1
        self._wake_all()

    def _wake_all(self) -> None:
        futex_wake(self._memory, self._actors_word)
        futex_wake(self._memory, self._learner_word)

    def _word(self, offset: int) -> int:
        return int.from_bytes(self._memory[offset : offset + 4], "little")
