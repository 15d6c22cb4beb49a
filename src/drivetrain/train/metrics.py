"""Metrics of a run: rows of metrics.jsonl, mirrored as TensorBoard events.

One row per log interval, and one per evaluation. Keys of a row:

    num_steps, num_updates        where the run was
    wall_s, steps_per_s, updates_per_s, update_ratio
    episode_return, episode_length    means of the training episodes that ended since the last row
    weight_lag, weight_lag_max    updates by which acting weights were behind
    loss, q, gradient_norm        of the latest call of the learner
    eval_return                   mean of an evaluation
"""

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from drivetrain.train.ledger import Counts, Rules

Row = dict[str, float]


class MetricsFile:
    """Writes rows to RUN/metrics.jsonl and to TensorBoard."""

    def __init__(self, run_dir: Path) -> None:
        # Here: children load their frameworks meanwhile.
        from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingTypeStubs]

        self._file = (run_dir / "metrics.jsonl").open("a", buffering=1)
        self._events: Any = SummaryWriter(str(run_dir / "tensorboard"))

    def write(self, row: Row) -> None:
        """Append a row; numbers that are not finite are left out, as JSON has none."""
        finite = {name: value for name, value in row.items() if math.isfinite(value)}
        self._file.write(json.dumps(finite) + "\n")
        for name, value in finite.items():
            if name != "num_steps":
                self._events.add_scalar(name, value, int(row["num_steps"]))

    def __enter__(self) -> "MetricsFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._events.close()


class Meter:
    """Gathers what happens between two rows.

    Args:
        rules: Of the run, for the achieved ratio.
        interval_steps: Environment steps between rows.
    """

    def __init__(self, rules: Rules, interval_steps: int) -> None:
        self._rules = rules
        self._interval_steps = interval_steps
        self._start_s = self._row_s = time.perf_counter()
        self._row_counts = Counts(0, 0, 0)
        self._returns: list[float] = []
        self._lengths: list[float] = []
        self._lags: list[float] = []
        self._learning: Row = {}

    def add_episodes(self, episodes: Sequence[Sequence[float]]) -> None:
        """Training episodes that ended: (return, length) each."""
        self._returns += [episode[0] for episode in episodes]
        self._lengths += [episode[1] for episode in episodes]

    def add_lags(self, lags: Sequence[float]) -> None:
        """Updates by which the weights of some acting steps were behind."""
        self._lags += lags

    def set_learning(self, metrics: Row) -> None:
        """The latest metrics of the learner."""
        self._learning = dict(metrics)

    def has_news(self, counts: Counts) -> bool:
        """Whether steps or updates were done since the last row."""
        return counts[1:] != self._row_counts[1:]

    def row_is_due(self, counts: Counts) -> bool:
        """Whether the run has passed the next multiple of the log interval."""
        before, now = self._row_counts.committed, counts.committed
        return now // self._interval_steps > before // self._interval_steps

    def row(self, counts: Counts) -> Row:
        """The row since the last one; starts the next."""
        now_s = time.perf_counter()
        elapsed_s = max(now_s - self._row_s, 1e-9)
        row: Row = {
            "num_steps": counts.committed,
            "num_updates": counts.updates,
            "wall_s": now_s - self._start_s,
            "steps_per_s": (counts.committed - self._row_counts.committed) / elapsed_s,
            "updates_per_s": (counts.updates - self._row_counts.updates) / elapsed_s,
            "update_ratio": achieved_ratio(self._rules, counts),
            "episode_return": _mean(self._returns),
            "episode_length": _mean(self._lengths),
            "weight_lag": _mean(self._lags),
            "weight_lag_max": max(self._lags, default=math.nan),
            **self._learning,
        }
        self._row_s, self._row_counts = now_s, counts
        self._returns, self._lengths, self._lags = [], [], []
        return row


def achieved_ratio(rules: Rules, counts: Counts) -> float:
    """Updates per environment step after warm-up; NaN before."""
    after = counts.committed - rules.warmup_steps
    return counts.updates / after if after > 0 else math.nan


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
