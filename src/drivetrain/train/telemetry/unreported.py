"""What has happened since the last row of metrics, in sums: means are made of them when the next row is.

Accounts -> Unreported --keep, with a checkpoint--> RUN/unreported.json --kept, on resuming--> Accounts

A checkpoint may lie between two rows. Whoever goes on from it has what happened before it in its first row. While one
is written, the file has what belongs to it and to the one before: a kill leaves either.
"""

import contextlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drivetrain.core.aside import save_text
from drivetrain.train.episode import Episode
from drivetrain.train.telemetry.sinks.sink import Row

FILE = "unreported.json"
_DAMAGED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@dataclass(kw_only=True)
class Unreported:
    """Training episodes that ended, and updates by which acting weights were behind."""

    num_episodes: int = 0
    total_reward: float = 0.0
    total_length: int = 0
    num_told: int = 0
    """Episodes of which the environment tells whether they succeeded."""
    total_success: float = 0.0
    num_lags: int = 0
    total_lag: float = 0.0
    max_lag: float = 0.0

    def add_episodes(self, episodes: Iterable[Episode]) -> None:
        """Training episodes that ended."""
        for episode in episodes:
            self.num_episodes += 1
            self.total_reward += episode.total_reward
            self.total_length += episode.length
            if math.isfinite(episode.success):
                self.num_told += 1
                self.total_success += episode.success

    def add_lags(self, lags: Iterable[float]) -> None:
        """Updates by which the weights of some acting steps were behind."""
        for lag in lags:
            self.num_lags += 1
            self.total_lag += lag
            self.max_lag = max(self.max_lag, lag)

    def add(self, other: "Unreported") -> None:
        """What another one has gathered."""
        for name, value in asdict(other).items():
            setattr(self, name, max(self.max_lag, value) if name == "max_lag" else getattr(self, name) + value)

    def remove_episodes(self, episodes: Iterable[Episode]) -> None:
        """Take out some of those that were added."""
        removed = Unreported()
        removed.add_episodes(episodes)
        for name, value in asdict(removed).items():
            setattr(self, name, getattr(self, name) - value)

    def row(self) -> Row:
        """Its part of a row; NaN where nothing was added."""
        row: Row = {
            "episode_return": _mean(self.total_reward, self.num_episodes),
            "episode_length": _mean(self.total_length, self.num_episodes),
            "weight_lag": _mean(self.total_lag, self.num_lags),
            "weight_lag_max": self.max_lag if self.num_lags else math.nan,
        }
        if self.num_told:
            row["success_rate"] = self.total_success / self.num_told
        return row

    def keep(self, run_dir: Path, num_steps: int, *, before: "tuple[int, Unreported] | None" = None) -> None:
        """Write it down for whoever goes on from the checkpoint of so many steps.

        Args:
            run_dir: The run's folder.
            num_steps: Steps of the run at that checkpoint.
            before: The same of the checkpoint that is there until that one is.

        Raises:
            OSError: It cannot be written; what was kept before is as it was.
        """
        sums: dict[str, Any] = {"num_steps": num_steps, **asdict(self)}
        if before is not None and before[0] != num_steps and before[1] != Unreported():
            sums["before"] = {"num_steps": before[0], **asdict(before[1])}
        if self == Unreported() and "before" not in sums:
            (run_dir / FILE).unlink(missing_ok=True)
        else:
            save_text(run_dir / FILE, json.dumps(sums) + "\n")

    @classmethod
    def kept(cls, run_dir: Path, num_steps: int) -> "Unreported":
        """What was kept with the checkpoint of so many steps; an empty one if nothing was, or it cannot be read."""
        with contextlib.suppress(OSError, *_DAMAGED):
            found = json.loads((run_dir / FILE).read_bytes())
            for sums in (found, found.get("before", found)):
                if sums["num_steps"] == num_steps:
                    return cls(**{name: type(zero)(sums[name]) for name, zero in asdict(cls()).items()})
        return cls()


def _mean(total: float, count: float) -> float:
    return total / count if count else math.nan
