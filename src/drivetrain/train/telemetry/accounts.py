"""Which training episodes are in a row of metrics, and which not yet at a checkpoint: each counts once, however late.

actors   --an episode, and after how many steps it had ended--> Accounts --close--> a row
learner  --a checkpoint is begun, after so many steps-->        Accounts --keep---> RUN/unreported.json

Where processes tell, a checkpoint may be heard of behind episodes, and rows, of later steps than its own, and ahead of
episodes of earlier ones. Whoever goes on from it has the rows up to its steps, and takes later steps again.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from drivetrain.train.episode import Episode
from drivetrain.train.telemetry.sinks.sink import Row
from drivetrain.train.telemetry.unreported import Unreported

_NUM_ROWS = 64
_NUM_EPISODES = 10_000
"""By so many rows and episodes a checkpoint may be heard of late."""


class Accounts:
    """What has happened since the last row, and what had at the checkpoint that is begun, and at the one before.

    Args:
        num_steps: Where the run begins.
        unreported: What had happened there since the last row.
    """

    def __init__(self, num_steps: int, unreported: Unreported) -> None:
        self._open = unreported
        self._rows: deque[tuple[int, Unreported]] = deque(maxlen=_NUM_ROWS)
        self._latest: deque[tuple[int, Episode]] = deque(maxlen=_NUM_EPISODES)
        self._begun, self._written = ((num_steps, replace(unreported)) for _ in range(2))
        self.is_outdated = False
        """Whether a row has told of what is kept with a checkpoint, which was of the same step."""

    def add_episodes(self, episodes: Sequence[Episode], num_steps: int) -> None:
        """Training episodes that had ended after so many steps of the run."""
        self._latest.extend((num_steps, episode) for episode in episodes)
        for sums in self._to_add_to(num_steps):
            sums.add_episodes(episodes)

    def add_lags(self, lags: Sequence[float], num_steps: int) -> None:
        """Updates by which the weights of acting steps were behind, of the first so many steps of the run."""
        for sums in self._to_add_to(num_steps):
            sums.add_lags(lags)

    def _to_add_to(self, num_steps: int) -> list[Unreported]:
        return [self._open, *(sums for at, sums in (self._begun, self._written) if num_steps <= at)]

    @property
    def has_news(self) -> bool:
        """Whether anything has happened since the last row."""
        return self._open != Unreported()

    def close(self, num_steps: int) -> Row:
        """The part of a row after so many steps; what is added from here on is the next one's."""
        told, self._open = self._open, Unreported()
        self._rows.append((num_steps, told))
        checkpoints = self._begun, self._written
        if num_steps in (at for at, _ in checkpoints):  # whoever goes on from there has this row
            self._begun, self._written = (self._at(at) if at == num_steps else (at, sums) for at, sums in checkpoints)
            self.is_outdated = True
        return told.row()

    def begin(self, num_steps: int) -> None:
        """A checkpoint is begun, after so many steps; the one before holds until it is written."""
        self._begun = self._at(num_steps)

    def finish(self) -> None:
        """It is written."""
        num_steps, sums = self._begun
        self._written = num_steps, replace(sums)

    def keep(self, run_dir: Path) -> None:
        """Write down what is in no row at either of the two, for whoever goes on from the one that is there.

        Raises:
            OSError: It cannot be written; what was kept before is as it was.
        """
        num_steps, sums = self._begun
        sums.keep(run_dir, num_steps, before=self._written)
        self.is_outdated = False

    def _at(self, num_steps: int) -> tuple[int, Unreported]:
        """What had happened by then that no row up to there tells: of later rows, but for what is later itself."""
        found = replace(self._open)
        for _, told in (row for row in self._rows if row[0] > num_steps):
            found.add(told)
        found.remove_episodes([episode for ended_at, episode in self._latest if ended_at > num_steps])
        return num_steps, found
