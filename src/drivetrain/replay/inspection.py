"""What a replay file holds, told without making a replay of it.

    file ──▶ index ──▶ rows, some at a time ──▶ FileReport ──▶ `drivetrain replay inspect`

Memory goes to the index and to some rows at a time.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.replay import files
from drivetrain.replay.files.format import ENTRY_NBYTES
from drivetrain.replay.files.index import Index
from drivetrain.replay.queries import EPSILON, priority_of
from drivetrain.replay.schema import MASK, REWARD, TERMINATED, TRUNCATED, Field, Schema
from drivetrain.replay.settings import Settings

_NUM_BINS = 12


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Numbers in short; NaN where there are none."""

    count: int
    minimum: float
    mean: float
    maximum: float


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """How many priorities lie between each two edges, which grow by a constant factor."""

    edges: list[float]
    """Priorities, one more than there are counts."""
    counts: list[int]
    """Rows."""


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """What `inspect` finds; `nbytes` are bytes throughout."""

    path: str
    version: int
    nbytes: int
    settings: dict[str, Any]
    """What the replay was made with, but for the fields; alpha as it was when the file was last written whole."""
    alpha: float
    """As it was when it was last saved."""
    fields: list[dict[str, Any]]
    """name, dtype, shape and nbytes (of one row in a sample, a sequence with all its steps) of each, and whether rows
    share it: observations that are stored once."""
    capacity: int
    num_rows: int
    num_inserted: int
    parts: list[dict[str, int]]
    """nbytes, num_rows, num_leaves (changed, of earlier rows) and num_frames of each save."""
    num_left_out: int
    """Bytes of a last part that is not whole."""
    dead_share: float
    """Of all parts: what later ones have replaced."""
    priorities: Spread | None
    """None in a uniform replay, where there are no rows, and where alpha is 0, which forgets them. Read by `alpha`, and
    as the largest float32 where that makes more of a leaf."""
    histogram: Histogram | None
    rewards: Spread
    num_terminated: int
    """Rows whose last step terminated."""
    num_truncated: int


def inspect(path: Path) -> FileReport:
    """Read a whole replay file, check it, and say what is in it.

    Takes some 40 bytes of memory per row of the replay, and 15 per frame, whatever rows and frames hold.

    Raises:
        FileFormatError: The file is damaged, foreign, or from a newer version.
        SegmentError: There is not enough memory.
    """
    with files.opened(path) as saved:
        settings = Settings.of_file(path, saved.settings)
        schema = settings.schema
        index = saved.index(schema, settings.capacity)
        order, state = index.order(), index.state
        assert state is not None
        tally = _Tally(schema)
        for _, rows in saved.rows(index, order):
            tally.add(rows)
        leaves = index.leaves[order] if settings.prioritized and state.alpha else np.empty(0, np.float32)
        spread, histogram = _priorities(leaves, state.alpha)
        return FileReport(
            path=str(path),
            version=saved.version,
            nbytes=saved.nbytes,
            settings={name: value for name, value in saved.settings.items() if name != "schema"},
            alpha=state.alpha,
            fields=[_described(field) for field in schema.fields],
            capacity=settings.capacity,
            num_rows=len(order),
            num_inserted=state.num_inserted,
            parts=[{name: number for name, number in asdict(part).items() if name != "end"} for part in index.parts],
            num_left_out=saved.num_left_out,
            dead_share=_dead_share(saved, schema, index, order),
            priorities=spread,
            histogram=histogram,
            rewards=tally.rewards(),
            num_terminated=tally.num_terminated,
            num_truncated=tally.num_truncated,
        )


def _described(field: Field) -> dict[str, Any]:
    shape = list(field.sampled_shape)
    described = {"name": field.name, "dtype": str(field.dtype), "shape": shape, "nbytes": field.nbytes}
    return {**described, "is_shared": field.is_framed}


def _dead_share(saved: files.Saved, schema: Schema, index: Index, order: npt.NDArray[np.int64]) -> float:
    alive = len(order) * index.entry_nbytes
    if schema.frame_stack:
        alive += len(saved.used_frames(schema, index, order).marked()) * schema.frame_stride
    written = sum(
        part.num_rows * index.entry_nbytes + part.num_leaves * ENTRY_NBYTES + part.num_frames * index.frame_nbytes
        for part in index.parts
    )
    return 1 - alive / written if written else 0.0


def _priorities(leaves: npt.NDArray[np.float32], alpha: float) -> tuple[Spread | None, Histogram | None]:
    """The priorities that leaves stand for, in short."""
    if not len(leaves):
        return None, None
    least, most = (float(priority_of(leaf, alpha)) for leaf in (leaves.min(), leaves.max()))
    first, last = math.log10(least + EPSILON), math.log10(most + EPSILON)
    num_bins = _NUM_BINS if last - first > 1e-6 else 1  # one for one priority
    logs: npt.NDArray[np.float64] = np.linspace(first, last, num_bins + 1)
    counts, total = np.zeros(num_bins, np.int64), 0.0
    for begin in range(0, len(leaves), 2**16):
        values = priority_of(leaves[begin : begin + 2**16], alpha)
        total += float(values.sum())
        bins = np.searchsorted(logs, np.log10(values + EPSILON), side="right") - 1
        counts += np.bincount(np.clip(bins, 0, num_bins - 1), minlength=num_bins)
    edges = np.maximum(10.0**logs - EPSILON, 0.0)
    spread = Spread(count=len(leaves), minimum=least, mean=total / len(leaves), maximum=most)
    return spread, Histogram(edges=edges.tolist(), counts=counts.tolist())


class _Tally:
    """Rewards and ends of episodes, of rows as they come by."""

    def __init__(self, schema: Schema) -> None:
        self._fields = {field.kind: field for field in schema.fields}
        self._count, self._sum = 0, 0.0
        self._least, self._most = np.inf, -np.inf
        self.num_terminated = self.num_truncated = 0

    def add(self, rows: npt.NDArray[np.uint8]) -> None:
        rewards = self._values(rows, REWARD).astype(np.float64)
        if MASK in self._fields:  # sequences: what is behind the end of an episode is no reward
            rewards = rewards[self._values(rows, MASK)]
        self._count += rewards.size
        with np.errstate(invalid="ignore"):  # n-step returns may be infinite, of both signs
            self._sum += float(rewards.sum())
        self._least = min(self._least, float(rewards.min()))
        self._most = max(self._most, float(rewards.max()))
        self.num_terminated += int(self._values(rows, TERMINATED).any(axis=1).sum())
        self.num_truncated += int(self._values(rows, TRUNCATED).any(axis=1).sum())

    def rewards(self) -> Spread:
        count = self._count
        if not count:
            return Spread(count=0, minimum=np.nan, mean=np.nan, maximum=np.nan)
        return Spread(count=count, minimum=self._least, mean=self._sum / count, maximum=self._most)

    def _values(self, rows: npt.NDArray[np.uint8], kind: int) -> npt.NDArray[Any]:
        """Of one field `[rows, items]`."""
        field = self._fields[kind]
        return np.ascontiguousarray(rows[:, field.offset : field.offset + field.nbytes]).view(field.dtype)
