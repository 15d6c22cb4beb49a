"""The arithmetic of the ledger, without memory or processes: how many updates so many environment steps call for.

    due(s)  = floor(ratio * max(0, s - warmup))      updates that s steps call for
    owed(s) = due(s) - updates

An actor is granted steps only while owed(all granted steps) <= tolerance, so with grants of n
steps owed never exceeds tolerance + ceil(ratio * n). The learner takes no more than
owed(committed steps), so it never runs ahead. At the end updates = due(total_steps), exactly.

A run may begin where an earlier process left off (`Origin`). If the replay was not kept, or rows of it are lost, steps
are taken without updates until it can be drawn from; the updates that they call for come after that.

On-policy, due(s) rises by a rollout's updates with every whole rollout; of a deterministic run by rounds. The rule of
granting is `replay.limiter`'s.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from drivetrain.replay.limiter import RateLimit
from drivetrain.train.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a run begins: at nothing, or where the checkpoint says that it was."""

    num_steps: int = 0
    """Environment steps taken before."""
    num_updates: int = 0
    """Updates done before."""
    refill_until: int = 0
    """Step up to which nothing is learned, because the replay was not kept, or rows of it were lost."""
    num_lost: int = 0
    """Steps that the replay lacks rows of before it can give a batch: as it was not kept, or they stood in windows."""
    num_resumes: int = 0
    """How often the run was taken up again."""
    elapsed_s: float = 0.0
    """Seconds that it has taken before."""
    learning_s: float = 0.0
    """Of these, from the first environment step on."""
    encoder_frozen: bool = False
    """Whether the replay keeps embeddings by now, see `embeddings`."""


START = Origin()
"""At nothing."""


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
    refill_until: int = 0
    """Step up to which nothing is learned; actors do not wait before."""
    steps_per_rollout: int = 1
    """Steps that call for updates together; beyond 1 on-policy, or of a deterministic run."""
    by_rounds: bool = False
    """Whether the learner releases each round of so many steps before the next is granted."""
    switch_at: int | None = None
    """Step at which the run goes on in another form, with processes of its own, unless it is ended before."""

    @classmethod
    def of(cls, config: TrainConfig, origin: Origin = START) -> "Rules":
        """The rules of a run."""
        if config.on_policy:
            return cls(
                total_steps=config.total_steps,
                warmup_steps=0,
                ratio=Fraction(config.updates_per_rollout, config.steps_per_rollout),
                tolerance=0,
                updates_per_call=config.updates_per_rollout,
                steps_per_rollout=config.steps_per_rollout,
                by_rounds=config.run.deterministic,
            )
        switch_at = _switch_at(config, origin)
        return cls(
            total_steps=config.total_steps if switch_at is None else switch_at,
            switch_at=switch_at,
            warmup_steps=config.updates.warmup_steps,
            ratio=config.updates.update_ratio,
            tolerance=0 if config.run.deterministic else config.updates.tolerance,
            updates_per_call=config.updates.updates_per_call,
            refill_until=origin.refill_until,
            steps_per_rollout=config.num_envs if config.run.deterministic else 1,
            by_rounds=config.run.deterministic,
        )

    @property
    def goes_on(self) -> bool:
        """Whether the run goes on in another form when these steps are taken: nothing is final before."""
        return self.total_steps == self.switch_at

    @cached_property
    def limit(self) -> RateLimit:
        """The rule that says when actors wait."""
        return RateLimit(updates_per_insert=self.ratio, tolerance=self.tolerance, min_size=self.warmup_steps)

    def due(self, steps: int) -> int:
        """Updates that `steps` environment steps call for, in exact arithmetic."""
        return self.limit.due(self._whole(steps))

    def grantable(self, wanted: int, granted: int, updates: int) -> int:
        """Steps that may be granted now, of `wanted`, after `granted` in all."""
        if granted >= self.refill_until and not self.limit.allows_insert(self._whole(granted), updates):
            return 0
        return min(wanted, self.total_steps - granted)

    def takeable(self, committed: int, updates: int) -> int:
        """Updates that the learner should do now, after `committed` steps and `updates` updates.

        A full call, or what the tolerance lets accumulate, or the remainder at the end. Actors
        that may not go on have more than `tolerance` updates owed, so learner and actors never
        wait for each other.
        """
        if committed < self.refill_until:
            return 0
        owed = self.limit.owed(self._whole(committed), updates)
        enough = min(self.updates_per_call, self.tolerance + 1)
        if owed >= enough or committed == self.total_steps:
            return min(owed, self.updates_per_call)
        return 0

    def can_draw(self, committed: int) -> bool:
        """Whether `committed` steps have called for updates: an off-policy run's replay gives batches by then."""
        return committed >= self.refill_until and self.due(committed) > 0

    def ended_at(self, granted: int, updates: int) -> "Rules":
        """The rules of a run that ends early, when `granted` steps are taken.

        With a whole rollout or round; not before a replay that was not kept is filled again, nor before the steps that
        call for the `updates` done, which an environment that failed may have left ahead of them.
        """
        least = max(granted, self.calling_for(updates))
        whole = -(-least // self.steps_per_rollout) * self.steps_per_rollout
        return replace(self, total_steps=min(max(whole, self.refill_until), self.total_steps))

    def calling_for(self, updates: int) -> int:
        """The least steps that call for so many updates."""
        if updates == 0:
            return 0
        return self.warmup_steps - (-updates * self.ratio.denominator // self.ratio.numerator)

    def is_whole(self, steps: int) -> bool:
        """Whether these are the steps of complete rollouts or rounds."""
        return steps == self._whole(steps)

    def _whole(self, steps: int) -> int:
        """The steps of the rollouts that are complete."""
        return steps // self.steps_per_rollout * self.steps_per_rollout


def _switch_at(config: TrainConfig, origin: Origin) -> int | None:
    """As it is configured, or later: where rows were lost, encoders are frozen once they have learned; None: never."""
    if origin.encoder_frozen or config.switch_at is None:
        return None
    switch_at = max(config.switch_at, origin.refill_until, origin.num_steps)
    return switch_at if switch_at < config.total_steps else None
