"""What a run is asked for, and what comes of it: passed from whoever starts it to whoever carries it out, and back.

run | resuming -> Job -> supervisor (processes) | loop (sequential) -> result
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drivetrain.core.errors import FileFormatError
from drivetrain.train.callbacks import Callbacks
from drivetrain.train.config import TrainConfig
from drivetrain.train.episode import Episode, success_rate
from drivetrain.train.interface import Interface
from drivetrain.train.ledger.rules import Origin, Rules
from drivetrain.train.run_dir.checkpoint import checkpoint_nbytes
from drivetrain.train.run_dir.results import Result
from drivetrain.train.telemetry.unreported import Unreported


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run that is to be carried out, new or taken up again."""

    config: TrainConfig
    """Resolved."""
    interface: Interface
    """What its environments look like."""
    run_dir: Path
    """Its folder, absolute."""
    origin: Origin = field(default_factory=Origin)
    """Where it begins."""
    lock_fd: int
    """The lock on its folder."""
    callbacks: Callbacks
    """Whom to tell what happens."""
    begins_anew: bool = False
    """It was begun before, and ended before its first checkpoint."""
    recording: Path | None = None
    """Where its processes note what they spend their time on."""
    begin: Callable[[], None] = lambda: None
    """To be called once all that it needs is there, and before anything of it is done: changes its folder."""

    @property
    def is_resumed(self) -> bool:
        """Whether it goes on from its checkpoint."""
        return self.origin.num_resumes > 0

    @property
    def resume_at(self) -> int | None:
        """The step from which on its metrics are written anew."""
        return self.origin.num_steps if self.is_resumed or self.begins_anew else None

    @property
    def unreported(self) -> Unreported:
        """What had happened at its checkpoint since the last row of metrics."""
        return Unreported.kept(self.run_dir, self.origin.num_steps) if self.is_resumed else Unreported()


def result(job: Job, rules: Rules, episodes: Sequence[Episode], counts: tuple[int, int], learning_s: float) -> Result:
    """Make the result, and check that the run kept its promise.

    Args:
        job: The run.
        rules: By which it has ended.
        episodes: Of the final evaluation.
        counts: Environment steps and updates done.
        learning_s: Seconds from the first step to the last update.
    """
    num_steps, num_updates = counts
    assert num_steps == rules.total_steps, (num_steps, rules)
    assert num_updates == rules.due(num_steps), (num_updates, rules)
    after = num_steps - rules.warmup_steps
    nbytes, replay_nbytes = 0, 0
    with contextlib.suppress(FileFormatError):  # told when the last one could not be written beside it
        nbytes, replay_nbytes = checkpoint_nbytes(job.run_dir)
    return Result(
        run_dir=job.run_dir,
        returns=tuple(episode.total_reward for episode in episodes),
        success_rate=success_rate(episodes),
        num_steps=num_steps,
        num_updates=num_updates,
        update_ratio=num_updates / after if after > 0 else 0.0,
        learning_s=learning_s,
        checkpoint_nbytes=nbytes,
        replay_nbytes=replay_nbytes,
    )
