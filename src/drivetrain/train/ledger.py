"""The ledger: integers in shared memory that keep updates per environment step at their ratio.

    due(s)  = floor(ratio * max(0, s - warmup))      updates that s steps call for
    owed(s) = due(s) - updates

An actor is granted steps only while owed(all granted steps) <= tolerance, so with grants of n
steps owed never exceeds tolerance + ceil(ratio * n). The learner takes no more than
owed(committed steps), so it never runs ahead. A step counts when its transition is in the replay.
At the end updates = due(total_steps), exactly.

The rule of granting is `replay.limiter`'s, and the shared counters, their lock and the waiting are
`replay.tally`'s: actors are its producers, the learner is its consumer.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from drivetrain.core.segments import Segment, SegmentHandle
from drivetrain.replay import tally
from drivetrain.replay.limiter import RateLimit
from drivetrain.replay.tally import Side, Tally
from drivetrain.train.config import TrainConfig

_LEARNER = 0  # the only consumer


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

    @cached_property
    def limit(self) -> RateLimit:
        """The rule that says when actors wait."""
        return RateLimit(updates_per_insert=self.ratio, tolerance=self.tolerance, min_size=self.warmup_steps)

    def due(self, steps: int) -> int:
        """Updates that `steps` environment steps call for, in exact arithmetic."""
        return self.limit.due(steps)

    def grantable(self, wanted: int, granted: int, updates: int) -> int:
        """Steps that may be granted now, of `wanted`, after `granted` in all."""
        if not self.limit.allows_insert(granted, updates):
            return 0
        return min(wanted, self.total_steps - granted)

    def takeable(self, committed: int, updates: int) -> int:
        """Updates that the learner should do now, after `committed` steps and `updates` updates.

        A full call, or what the tolerance lets accumulate, or the remainder at the end. Actors
        that may not go on have more than `tolerance` updates owed, so learner and actors never
        wait for each other.
        """
        owed = self.limit.owed(committed, updates)
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
        self._tally = Tally(segment, (num_actors, 1), initialize=initialize)

    @classmethod
    def create(cls, rules: Rules, num_actors: int) -> "Ledger":
        """A new ledger, everything zero, owned by this process."""
        return cls(Segment.create("ledger", Tally.nbytes_for((num_actors, 1))), rules, num_actors, initialize=True)

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

        def decide(counts: tally.Counts) -> Grant | None:
            if self.stopping or counts.committed == self.rules.total_steps:
                return Grant(counts.granted, 0)
            num_steps = self.rules.grantable(wanted, counts.granted, counts.updates)
            if num_steps == 0:
                return None
            self._tally.grant(Side.PRODUCERS, actor, num_steps)
            return Grant(counts.granted, num_steps)

        grant = self._tally.wait(Side.PRODUCERS, decide)
        return grant if grant and grant.num_steps else None

    def commit(self, actor: int, num_steps: int) -> None:
        """Report that granted steps are in the replay."""
        counts = self._tally.commit(Side.PRODUCERS, actor, num_steps)
        if self.rules.takeable(counts.committed, counts.updates) > 0:
            self._tally.wake(Side.CONSUMERS)
        if counts.committed == self.rules.total_steps:
            self._wake_all()

    def give_back(self, actor: int) -> int:
        """Return what a dead actor was granted and did not commit; how many steps that was."""
        return self._tally.give_back(Side.PRODUCERS, actor)

    # Learner ------------------------------------------------------------------------------------

    def wait_for_updates(self) -> int:
        """Wait until updates are due, and say how many to do now; 0 when the run is over or stops."""

        def decide(counts: tally.Counts) -> int | None:
            count = 0 if self.stopping else self.rules.takeable(counts.committed, counts.updates)
            over = self.stopping or self.is_finished(Counts(*counts[:3]))
            return count if count > 0 or over else None

        return self._tally.wait(Side.CONSUMERS, decide) or 0

    def complete(self, num_updates: int) -> None:
        """Report updates whose priorities and weights are published."""
        self._tally.commit(Side.CONSUMERS, _LEARNER, num_updates)
        self._tally.wake(Side.PRODUCERS)

    # Everybody ----------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """The numbers now; consistent with each other only at rest."""
        return Counts(*self._tally.counts()[:3])

    @property
    def updates(self) -> int:
        """Updates done; one aligned load."""
        return self._tally.committed(Side.CONSUMERS, _LEARNER)

    @property
    def stopping(self) -> bool:
        """Whether the run was told to end early."""
        return self._tally.stopping

    def is_finished(self, counts: Counts) -> bool:
        """Whether all steps are taken and all updates they call for are done."""
        total = self.rules.total_steps
        return counts.committed == total and counts.updates == self.rules.due(total)

    def stop(self) -> None:
        """Tell everybody to end: no more grants, no more updates."""
        self._tally.stop()

    def _wake_all(self) -> None:
        self._tally.wake(Side.PRODUCERS)
        self._tally.wake(Side.CONSUMERS)
