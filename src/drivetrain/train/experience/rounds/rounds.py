"""Takes round after round: rows into the replay, in the order of the environments, and notes for a checkpoint."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from drivetrain.replay import Replay
from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.rollout import RolloutBuffer
from drivetrain.train.experience.rounds.episodes import Episodes
from drivetrain.train.experience.rounds.windows import Windows, of_env, round_of


class Rounds:
    """What has been taken of a run; in the process that learns.

    Args:
        config: The run's.
        buffer: Where actors put each round.
        replay: Where its rows go; None on-policy.
        arrays: Those of the checkpoint that the run goes on from.
    """

    def __init__(
        self,
        config: TrainConfig,
        buffer: RolloutBuffer,
        replay: Replay | None,
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        self._buffer = buffer
        self._windows = Windows(1 if replay is None else config.replay.num_step)
        # One for each environment: a writer is given open windows again, and has to be at an episode's begin.
        self._writers = [] if replay is None else [replay.writer(num_envs=1) for _ in range(config.num_envs)]
        self.episodes = Episodes(config.num_envs) if arrays is None else Episodes.of(arrays)
        """Where every environment is."""
        if arrays is not None and replay is not None:
            self._windows.restore(arrays)
            self._windows.give(self._writers, list(map(len, self.episodes.actions)))

    def take(self) -> None:
        """Take the round in the buffer, which may be overwritten once this returns."""
        rollout = self._buffer.rollout
        self.episodes.add(rollout)
        if self._writers:
            step = round_of(rollout)
            for env, writer in enumerate(self._writers):
                writer.add(**of_env(step, env))
            self._windows.add(step)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint holds of it."""
        return {**self.episodes.arrays(), **self._windows.arrays()}
