"""The ledger: integers in shared memory that keep updates per environment step at their ratio (rules.py).

A step counts when its transition is in the replay. A run that is to end early has its total_steps lowered to what was
granted by then, and ends like any; one that loses rows before its first update begins to learn as much later.

On-policy, each actor has a part of every rollout, and is granted the next one when the updates of the last are done;
the learner waits for all parts.

A deterministic run is made of rounds: a rollout, or one step of all environments. The learner takes every round
that all actors are through with, does the updates due, and releases it; only then the next is granted.

The shared counters, their lock and the waiting are `replay.tally`'s: actors are its producers, the learner is its
consumer.
"""

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.segments import Segment, SegmentHandle
from drivetrain.replay import tally
from drivetrain.replay.tally import Side, Tally
from drivetrain.train.ledger.rules import START, Origin, Rules

_LEARNER = 0  # the only consumer
# Marks, int64 each. Times are nanoseconds of the monotonic clock; 0: not yet, or at rest.
_FIRST_STEP = 0  # when the first actor had taken its first steps
_TOTAL_STEPS = 1  # the steps of the whole run, fewer than the configuration's where it ends early
_RELEASED = 2  # the steps of the rounds that the learner has released
_REFILLED = 3  # the step up to which nothing is learned, later than the rules' where rows were lost
_LOST = 4  # rows that were lost before it, so far
_WORK = 5  # since when each actor, and the evaluator, has been at what it does with an environment


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
        self._rules = rules
        self._segment = segment
        self._num_actors = num_actors
        self._tally = Tally(segment, (num_actors, 1), initialize=initialize)
        self._marks: NDArray[np.int64] = np.frombuffer(segment.payload, np.int64)[-_num_marks(num_actors) :]
        if initialize:
            self._marks[_TOTAL_STEPS] = rules.total_steps
            self._marks[_REFILLED] = rules.refill_until

    @classmethod
    def create(cls, rules: Rules, num_actors: int, origin: Origin = START) -> "Ledger":
        """A new ledger, with the counts that the run begins at, owned by this process."""
        segment = Segment.create("ledger", Tally.nbytes_for((num_actors, 1)) + 8 * _num_marks(num_actors))
        ledger = cls(segment, rules, num_actors, initialize=True)
        ledger._note(Side.CONSUMERS, _LEARNER, origin.num_updates)
        ledger._marks[_RELEASED] = origin.num_steps
        for actor in range(num_actors):  # a share each: on-policy, every actor has a part of every rollout
            first, end = (origin.num_steps * index // num_actors for index in (actor, actor + 1))
            ledger._note(Side.PRODUCERS, actor, end - first)
        return ledger

    @classmethod
    def attach(cls, handle: SegmentHandle, rules: Rules, num_actors: int) -> "Ledger":
        """A view of another process's ledger."""
        return cls(Segment.attach(handle, "ledger"), rules, num_actors)

    def _note(self, side: Side, index: int, amount: int) -> None:
        """What was done before the run began here."""
        self._tally.grant(side, index, amount)
        self._tally.commit(side, index, amount)

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

        def decide(counts: tally.Counts) -> Grant | None:
            if self.stopping or counts.committed == self.rules.total_steps:
                return Grant(counts.granted, 0)
            granted = self._as_if_all(actor) if self._in_rollouts else counts.granted
            if self.rules.by_rounds and granted > self._marks[_RELEASED]:
                return None
            num_steps = self.rules.grantable(wanted, granted, counts.updates)
            if num_steps == 0:
                return None
            self._tally.grant(Side.PRODUCERS, actor, num_steps)
            return Grant(granted, num_steps)

        grant = self._tally.wait(Side.PRODUCERS, decide)
        return grant if grant and grant.num_steps else None

    def commit(self, actor: int, num_steps: int) -> int:
        """Report that granted steps are in the replay; how many steps the run has with them.

        0: it stops, and whoever goes on with it takes them again.
        """
        counts = self._tally.commit(Side.PRODUCERS, actor, num_steps, unless_stopping=True)
        if counts is None:
            return 0
        if not self._marks[_FIRST_STEP]:
            self._marks[_FIRST_STEP] = time.monotonic_ns()
        if self.rules.by_rounds or self._takeable(counts) > 0:
            self._tally.wake(Side.CONSUMERS)
        if counts.committed == self.rules.total_steps:
            self._wake_all()
        return counts.committed

    def give_back(self, actor: int) -> int:
        """Return what a dead actor was granted and did not commit; how many steps that was."""
        return self._tally.give_back(Side.PRODUCERS, actor)

    def lose_rows(self, num_rows: int, needed: int) -> None:
        """Put the first update off, where so many rows were lost before it, beside others, of the `needed` steps that
        give a batch.
        """

        def decide(counts: tally.Counts) -> bool:
            self._marks[_LOST] += num_rows
            filled, rules = needed + int(self._marks[_LOST]), self.rules
            is_filling = counts.updates == 0 or counts.committed < rules.refill_until
            if is_filling and filled > max(rules.warmup_steps, rules.refill_until):
                self._marks[_REFILLED] = min(filled, rules.total_steps)
            return True

        self._tally.wait(Side.PRODUCERS, decide)
        self._wake_all()

    # Learner ------------------------------------------------------------------------------------

    def wait_for_updates(self, begun: int = 0, timeout_s: float | None = None) -> int:
        """Wait for updates due beside those `begun`, and say how many.

        0 when the run is over or stops, after `timeout_s`, or when nothing more can fall due until those begun are
        completed.
        """

        def decide(counts: tally.Counts) -> int | None:
            after = counts._replace(updates=counts.updates + begun)
            count = 0 if self.stopping else self._takeable(after)
            over = self.stopping or self.is_finished(after)
            granted, committed, updates = counts[:3]
            held_up = begun > 0 and granted == committed and not self.rules.grantable(1, granted, updates)
            return count if count > 0 or over or held_up else None

        return self._tally.wait(Side.CONSUMERS, decide, timeout_s) or 0

    def complete(self, num_updates: int) -> None:
        """Report updates whose priorities and weights are published."""
        self._tally.commit(Side.CONSUMERS, _LEARNER, num_updates)
        self._tally.wake(Side.PRODUCERS)

    def wait_for_round(self) -> int:
        """Wait until all actors are through with a round, and say how many steps that makes; 0 when the run is over or
        stops.
        """

        def decide(counts: tally.Counts) -> int | None:
            done = self._done_by_all()
            over = self.stopping or self.is_finished(counts)
            if done > self._marks[_RELEASED] and not self.stopping:
                return done
            return 0 if over else None

        return self._tally.wait(Side.CONSUMERS, decide) or 0

    def release(self, num_steps: int) -> None:
        """Report that the round that ends with step `num_steps` is learned from and published."""
        self._marks[_RELEASED] = num_steps
        self._tally.wake(Side.PRODUCERS)

    # Environments -------------------------------------------------------------------------------

    def note_work(self, index: int) -> None:
        """Note that an actor, or the evaluator (index num_actors), begins something with an environment."""
        self._marks[_WORK + index] = time.monotonic_ns()

    def note_rest(self, index: int) -> None:
        """Note that it is through, and may wait for somebody else as long as it takes."""
        self._marks[_WORK + index] = 0

    def working_s(self, index: int) -> float:
        """Seconds since it has begun that; 0 at rest."""
        since = int(self._marks[_WORK + index])
        return (time.monotonic_ns() - since) * 1e-9 if since else 0.0

    # Everybody ----------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """The numbers now; consistent with each other only at rest."""
        return Counts(*self._tally.counts()[:3])

    def settled(self) -> Counts:
        """The numbers at one instant; of a run that stops the steps are those that it ends with."""
        counts = self._tally.wait(Side.CONSUMERS, lambda counts: counts)
        assert counts is not None
        return Counts(*counts[:3])

    @property
    def updates(self) -> int:
        """Updates done; one aligned load."""
        return self._tally.committed(Side.CONSUMERS, _LEARNER)

    @property
    def first_step_s(self) -> float | None:
        """The instant of time.monotonic() at which the first actor was through with its first steps."""
        mark = int(self._marks[_FIRST_STEP])
        return mark * 1e-9 if mark else None

    @property
    def rules(self) -> Rules:
        """The rules, with as many steps as the run is to have by now, and the step from which on it learns."""
        total_steps, refill_until = int(self._marks[_TOTAL_STEPS]), int(self._marks[_REFILLED])
        if (total_steps, refill_until) != (self._rules.total_steps, self._rules.refill_until):
            self._rules = replace(self._rules, total_steps=total_steps, refill_until=refill_until)
        return self._rules

    def end_early(self) -> int:
        """Have the run end with the steps granted so far and the updates they call for; how many steps that is."""

        def decide(counts: tally.Counts) -> int:
            self._marks[_TOTAL_STEPS] = self.rules.ended_at(counts.granted, counts.updates).total_steps
            return int(self._marks[_TOTAL_STEPS])

        total_steps = self._tally.wait(Side.PRODUCERS, decide)
        self._wake_all()
        assert total_steps is not None
        return total_steps

    @property
    def stopping(self) -> bool:
        """Whether the run was told to end early."""
        return self._tally.stopping

    def is_finished(self, counts: Counts | tally.Counts) -> bool:
        """Whether all steps are taken and all updates they call for are done."""
        total = self.rules.total_steps
        return counts.committed == total and counts.updates == self.rules.due(total)

    @property
    def is_over(self) -> bool:
        """Whether the run was told to end early, or is finished."""
        return self.stopping or self.is_finished(self.counts())

    def stop(self) -> None:
        """Tell everybody to end: no more grants, no more updates."""
        self._tally.stop()

    @property
    def _in_rollouts(self) -> bool:
        """Whether every actor has a part of every rollout, or round."""
        return self.rules.steps_per_rollout > 1

    def _takeable(self, counts: tally.Counts) -> int:
        """Updates to do now; on-policy after the part of the last of the actors."""
        committed = counts.committed
        if self._in_rollouts:
            committed = self._done_by_all()
        return self.rules.takeable(committed, counts.updates)

    def _done_by_all(self) -> int:
        return min(map(self._as_if_all, range(self._num_actors)))

    def _as_if_all(self, actor: int) -> int:
        """Steps of the run, were everybody as far as this actor, whose parts are all granted and done whole."""
        return self._num_actors * self._tally.committed(Side.PRODUCERS, actor)

    def _wake_all(self) -> None:
        self._tally.wake(Side.PRODUCERS)
        self._tally.wake(Side.CONSUMERS)


def _num_marks(num_actors: int) -> int:
    return _WORK + num_actors + 1
