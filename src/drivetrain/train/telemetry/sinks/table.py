"""metrics.csv: the rows of metrics.jsonl as a table, for spreadsheets and pandas.

    COLUMNS, then what the algorithm tells of its updates, in the order in which it does
    one line per row; what a row has nothing to say about is empty

A table has one header, but what an algorithm tells is known when it first does. So the file is made from
metrics.jsonl, in one step, when it is opened and when a row brings a new column; between, lines are
appended. That also cuts what a resumed run does again, and mends whatever a kill or a full disk left.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from drivetrain.core.aside import save_text
from drivetrain.train.run_dir.archives import append_whole, is_removed
from drivetrain.train.telemetry.sinks.sink import Row

COLUMNS = (
    "num_steps",
    "num_updates",
    "wall_s",
    "steps_per_s",
    "updates_per_s",
    "update_ratio",
    "episode_return",
    "episode_length",
    "weight_lag",
    "weight_lag_max",
    "eval_return",
    "success_rate",
    "eval_success_rate",
    "checkpoint_nbytes",
    "checkpoint_replay_nbytes",
    "checkpoint_s",
)
"""The columns that every run has, in this order, whether or not they are ever filled."""


class Table:
    """The file RUN/metrics.csv.

    Args:
        path: Of the file; replaced.
        rows: What metrics.jsonl holds, the row being written included.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(self, path: Path, rows: Callable[[], Sequence[Row]]) -> None:
        self.name = str(path)
        self._path = path
        self._rows = rows
        self._make()

    def write(self, row: Row) -> None:
        """Add a line; the file is made anew for a row with other columns, after a line that was lost, and where
        somebody has removed or replaced it.

        Raises:
            OSError: There is no room; the file is as it was.
        """
        if self._is_behind or not row.keys() <= set(self._columns) or is_removed(self._file, self._path):
            self._file.close()
            self._make()
            return
        self._is_behind = True
        append_whole(self._file, _text(self._columns, [row]).encode())
        self._is_behind = False

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def _make(self) -> None:
        """Make the whole file, with the columns of every row, and stand at its end."""
        self._is_behind = True
        try:
            rows = self._rows()
            self._columns = list(dict.fromkeys([*COLUMNS, *(name for row in rows for name in row)]))
            save_text(self._path, _text(self._columns, [dict(zip(self._columns, self._columns, strict=True)), *rows]))
            self._is_behind = False
        finally:
            self._file = self._path.open("ab", buffering=0)


def _text(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> str:
    text = io.StringIO()
    csv.DictWriter(text, columns, lineterminator="\n").writerows(rows)
    return text.getvalue()
