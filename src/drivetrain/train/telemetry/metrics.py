"""Metrics of a run: rows of metrics.jsonl, and from there of every sink.

One row per log interval, one per evaluation, one per checkpoint. Keys of a row:

    num_steps, num_updates        where the run was
    wall_s, steps_per_s, updates_per_s, update_ratio
    episode_return, episode_length    means of the training episodes that ended since the last row
    success_rate                  share of them that succeeded, where the environment tells
    weight_lag, weight_lag_max    updates by which acting weights were behind
    loss, q, gradient_norm, ...   what the algorithm tells of the learner's latest call
    eval_return, eval_success_rate    mean of an evaluation, and the share of its episodes that succeeded
    checkpoint_nbytes, checkpoint_replay_nbytes, checkpoint_s    a checkpoint: its size, the replay's
        share of it, and how long it took to write

Rows stand in the order in which they were told: that of an evaluation may follow rows of later steps, as it is told
when its episodes are played, of the steps at which its weights were taken.
"""

import contextlib
import json
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from drivetrain.core.aside import save_text
from drivetrain.core.errors import FileFormatError
from drivetrain.train.config import TrainConfig
from drivetrain.train.episode import Episode
from drivetrain.train.ledger.ledger import Counts
from drivetrain.train.ledger.rules import Origin, Rules
from drivetrain.train.run_dir.archives import append_whole, is_removed
from drivetrain.train.telemetry.accounts import Accounts
from drivetrain.train.telemetry.sinks.sink import Row, Sink
from drivetrain.train.telemetry.sinks.table import Table
from drivetrain.train.telemetry.sinks.tensorboard import TensorBoard
from drivetrain.train.telemetry.sinks.wandb import WeightsAndBiases
from drivetrain.train.telemetry.unreported import Unreported


class MetricsFile:
    """Writes rows to RUN/metrics.jsonl, and then to every sink: TensorBoard, and what the run asks for.

    Args:
        config: The run's.
        run_dir: Its folder.
        resume_at: Where a resumed run goes on: rows of later steps are cut off.
        complain: Told, once, that rows cannot be written; the run goes on without them until they can.
    """

    def __init__(
        self, config: TrainConfig, run_dir: Path, resume_at: int | None, complain: Callable[[str], None]
    ) -> None:
        self._path = run_dir / "metrics.jsonl"
        self._complain = complain
        self._failing: set[str] = set()
        kept = None if resume_at is None else cut_rows(self._path, resume_at)
        self._evaluated = _last_evaluated(kept or [])
        # First: it may refuse. Late, in all: children load their frameworks meanwhile.
        self._sinks: list[Sink] = [WeightsAndBiases(config, run_dir)] if config.run.wandb else []
        self._file = self._path.open("ab", buffering=0)
        self._sinks.append(TensorBoard(run_dir / "tensorboard", kept))
        if config.run.csv:
            self._sinks.append(Table(run_dir / "metrics.csv", lambda: read_rows(self._path)))

    def write(self, row: Row) -> None:
        """Append a row; numbers that are not finite are left out, as JSON has none.

        An evaluation that was played again, after a death or a resume, is there already.
        """
        if (evaluated := _evaluated_at(row)) is not None:
            if evaluated == self._evaluated:
                return
            self._evaluated = evaluated
        finite = {name: value for name, value in row.items() if math.isfinite(value)}
        line = json.dumps(finite).encode() + b"\n"
        if self._try(str(self._path), lambda: append_whole(self._at_its_path(), line)):
            for sink in self._sinks:
                self._try(sink.name, partial(sink.write, finite))

    @property
    def evaluated(self) -> tuple[int, int]:
        """Environment steps and updates at the last evaluation that was told, in this session or before.

        0 and -1: there was none.
        """
        return (0, -1) if self._evaluated is None else self._evaluated

    def _at_its_path(self) -> IO[bytes]:
        """The file; a new one if somebody has removed or replaced it, so that the rows from here on are not lost."""
        if is_removed(self._file, self._path):
            removed, self._file = self._file, self._path.open("ab", buffering=0)
            removed.close()
        return self._file

    def _try(self, place: str, write: Callable[[], object]) -> bool:
        """Whether it could be written; says so where it no longer can."""
        try:
            write()
        except (OSError, FileFormatError) as error:
            if place not in self._failing:
                why = error.strerror if isinstance(error, OSError) else error
                self._complain(f"{place}: {why}; the run goes on, and rows are lost until that is mended")
            self._failing.add(place)
            return False
        self._failing.discard(place)
        return True

    def __enter__(self) -> "MetricsFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        for sink in self._sinks:
            self._try(sink.name, sink.close)


def read_rows(path: Path) -> list[Row]:
    """The rows of a metrics.jsonl; a last one that was not finished is left out.

    Raises:
        FileFormatError: The file is absent or damaged.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
        rows: list[Any] = [json.loads(line) for line in lines]
        if not all(isinstance(row, dict) and isinstance(row["num_steps"], int) for row in rows):
            raise ValueError("a row is none, or has no number of steps")
        return rows
    except FileNotFoundError as error:
        raise FileFormatError(f"{path}: there are no metrics here (yet)") from error
    except (OSError, ValueError, KeyError) as error:
        raise FileFormatError(f"{path}: damaged, or no metrics of drivetrain: {error}") from error


def cut_rows(path: Path, num_steps: int) -> list[Row]:
    """Remove the rows of later steps than this; the others."""
    rows = _rows_until(path, num_steps)
    save_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    return rows


def last_evaluation(path: Path, num_steps: int) -> tuple[int, int] | None:
    """Steps and updates of the last evaluation in a metrics.jsonl, up to so many steps; None: there is none.

    Raises:
        FileFormatError: The file is damaged.
    """
    return _last_evaluated(_rows_until(path, num_steps))


def _rows_until(path: Path, num_steps: int) -> list[Row]:
    return [row for row in (read_rows(path) if path.exists() else []) if row["num_steps"] <= num_steps]


def _last_evaluated(rows: Sequence[Row]) -> tuple[int, int] | None:
    return next(filter(None, map(_evaluated_at, reversed(rows))), None)


def _evaluated_at(row: Row) -> tuple[int, int] | None:
    """Steps and updates of an evaluation; None of other rows."""
    return (int(row["num_steps"]), int(row.get("num_updates", 0))) if "eval_return" in row else None


class Meter:
    """Gathers what happens between two rows.

    Args:
        rules: Of the run, for the achieved ratio.
        interval_steps: Environment steps between rows; where steps call for updates by whole rollouts or rounds,
            rounded up to whole ones, as a part of one says nothing of how fast a run is.
        origin: Where the run begins.
        unreported: What had happened there since the last row.
    """

    def __init__(self, rules: Rules, interval_steps: int, origin: Origin, unreported: Unreported) -> None:
        self._rules = rules
        self._interval_steps = -(-interval_steps // rules.steps_per_rollout) * rules.steps_per_rollout
        self._row_s = time.monotonic()
        self._start_s = self._row_s - origin.elapsed_s
        self._row_counts = Counts(origin.num_steps, origin.num_steps, origin.num_updates)
        self._accounts = Accounts(origin.num_steps, unreported)
        self._learning: Row = {}

    def add_episodes(self, episodes: Sequence[Episode], num_steps: int) -> None:
        """Training episodes that had ended after so many steps of the run."""
        self._accounts.add_episodes(episodes, num_steps)

    def add_lags(self, lags: Sequence[float], num_steps: int) -> None:
        """Updates by which the weights of some acting steps were behind, of the first so many of the run."""
        self._accounts.add_lags(lags, num_steps)

    def set_learning(self, metrics: Row) -> None:
        """The latest metrics of the learner."""
        self._learning = dict(metrics)

    def mark(self, num_steps: int) -> None:
        """Whoever goes on from a checkpoint that is begun before the next mark does so from here."""
        self._accounts.begin(num_steps)

    def keep(self, run_dir: Path, *, is_written: bool = False) -> None:
        """Write down what is in no row at the mark, for whoever goes on from the checkpoint.

        Until that `is_written`, also what was in none at the one before, which a kill leaves. Nothing where there is no
        room: checkpoints tell of that.
        """
        if is_written:
            self._accounts.finish()
        with contextlib.suppress(OSError):
            self._accounts.keep(run_dir)

    def keep_no_more_than_rows_lack(self, run_dir: Path) -> None:
        """Write that down anew where a row, which is written by now, was of a checkpoint's very step."""
        if self._accounts.is_outdated:
            self.keep(run_dir)

    def has_news(self, counts: Counts) -> bool:
        """Whether steps or updates were done since the last row, or before a resume what no row has told."""
        return counts[1:] != self._row_counts[1:] or self._accounts.has_news

    def row_is_due(self, counts: Counts) -> bool:
        """Whether the run has passed the next multiple of the log interval."""
        before, now = self._row_counts.committed, counts.committed
        return now // self._interval_steps > before // self._interval_steps

    def row(self, counts: Counts, now_s: float | None = None) -> Row:
        """The row since the last one; starts the next.

        Args:
            counts: What is done.
            now_s: When that was so, by `time.monotonic`; None: now.
        """
        now_s = time.monotonic() if now_s is None else now_s
        elapsed_s = max(now_s - self._row_s, 1e-9)
        row: Row = {
            "num_steps": counts.committed,
            "num_updates": counts.updates,
            "wall_s": now_s - self._start_s,
            "steps_per_s": (counts.committed - self._row_counts.committed) / elapsed_s,
            "updates_per_s": (counts.updates - self._row_counts.updates) / elapsed_s,
            "update_ratio": achieved_ratio(self._rules, counts),
            **self._accounts.close(counts.committed),
            **self._learning,
        }
        self._row_s, self._row_counts = now_s, counts
        return row


def achieved_ratio(rules: Rules, counts: Counts) -> float:
    """Updates per environment step after warm-up; NaN before."""
    after = counts.committed - rules.warmup_steps
    return counts.updates / after if after > 0 else math.nan
