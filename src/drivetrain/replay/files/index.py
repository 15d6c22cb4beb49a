"""The index of a file: what each slot holds in the end, and where in the file it lies.

    part ──▶ part ──▶ part        what a slot holds is what was written for it last

Everything is checked on the way; rows and frames stay in the file.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.replay import _native
from drivetrain.replay.files.format import BLOCK, COUNT, CRC, ENTRY_NBYTES, MOST_ROWS, MOST_STATE_NBYTES, State
from drivetrain.replay.files.walk import Walk
from drivetrain.replay.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a file: where it ends, and how much it brought."""

    nbytes: int
    end: int
    num_rows: int
    num_leaves: int
    """Of rows that an earlier part brought."""
    num_frames: int


@dataclass(kw_only=True)
class Index:
    """Where everything is; 12 bytes per row, and 8 per frame."""

    row_nbytes: int
    frame_nbytes: int
    places: npt.NDArray[np.int64]
    """Of the row of each slot, in bytes from the start of the file; 0: no row."""
    leaves: npt.NDArray[np.float32]
    state: State | None = None
    parts: list[Part] = field(default_factory=list[Part])
    _frames: list[npt.NDArray[np.int64]] = field(default_factory=list[Any])

    @classmethod
    def empty(cls, schema: Schema, capacity: int) -> "Index":
        """Of a file without parts."""
        return cls(
            row_nbytes=schema.row_stride - _native.ROW_HEADER_NBYTES,
            frame_nbytes=schema.frame_stride,
            places=np.zeros(capacity, np.int64),
            leaves=np.zeros(capacity, np.float32),
        )

    @property
    def entry_nbytes(self) -> int:
        """Bytes of a row with its slot and leaf."""
        return self.row_nbytes + ENTRY_NBYTES

    @property
    def capacity(self) -> int:
        """Slots of the replay that was saved."""
        return len(self.places)

    def order(self) -> npt.NDArray[np.int64]:
        """The slots with rows, oldest first."""
        slots = np.flatnonzero(self.places)
        oldest = self.state.next_slot if self.state else 0
        return np.concatenate([slots[slots >= oldest], slots[slots < oldest]])

    def frame_places(self) -> npt.NDArray[np.int64]:
        """Where each frame lies, by its number."""
        return np.concatenate([np.empty(0, np.int64), *self._frames])

    def move_together(self) -> None:
        """Put the rows into slots 0, 1, 2, ..., oldest first, as loading does."""
        order = self.order()
        places, leaves = self.places[order], self.leaves[order]
        self.places[:], self.leaves[:] = 0, 0
        self.places[: len(order)], self.leaves[: len(order)] = places, leaves

    def add_frames(self, walk: Walk, count: int) -> None:
        """Take in frames that lie here in the file."""
        if count and not self.frame_nbytes:
            raise walk.damaged("frames, where none are shared")
        begin = walk.skip(count * self.frame_nbytes)
        self._frames.append(begin + self.frame_nbytes * np.arange(count, dtype=np.int64))

    def add_rows(self, walk: Walk, slots: npt.NDArray[Any], leaves: npt.NDArray[np.float32]) -> None:
        """Take in rows that lie here in the file."""
        if not (np.isfinite(leaves).all() and (leaves > 0).all()):
            raise walk.damaged("a priority is not a positive number")
        begin = walk.skip(len(slots) * self.row_nbytes)
        self.places[slots] = begin + self.row_nbytes * np.arange(len(slots), dtype=np.int64)
        self.leaves[slots] = leaves

    def change_leaves(self, walk: Walk, slots: npt.NDArray[Any], leaves: npt.NDArray[np.float32]) -> None:
        """Take in leaves of rows that are there; 0 ends them."""
        if not len(slots):
            return
        if not (np.isfinite(leaves).all() and (leaves >= 0).all() and self.places[slots].all()):
            raise walk.damaged("a priority is no number of a row")
        self.leaves[slots] = leaves
        self.places[slots[leaves == 0]] = 0


def read_part(walk: Walk, index: Index) -> None:
    """Take in the part that begins here.

    Raises:
        FileFormatError: It is damaged.
    """
    begin, walk.crc = walk.position, 0
    state = _read_state(walk, index)
    if state.moved:
        if index.state is None:
            raise walk.damaged("it was loaded before it was saved")
        index.move_together()
    counts = np.zeros(3, np.int64)
    while any(block := BLOCK.unpack(walk.take(BLOCK.size))):
        num_rows, num_leaves, num_frames = block
        if num_rows + num_leaves > MOST_ROWS:
            raise walk.damaged(f"a block of {num_rows + num_leaves} rows")
        slots = walk.array("<u4", num_rows + num_leaves)
        leaves = walk.array("<f4", num_rows + num_leaves)
        if (slots >= index.capacity).any():
            raise walk.damaged(f"a row in slot {slots.max()} of {index.capacity}")
        index.change_leaves(walk, slots[num_rows:], leaves[num_rows:])
        index.add_frames(walk, num_frames)
        index.add_rows(walk, slots[:num_rows], leaves[:num_rows])
        counts += block
    _check_sum(walk)
    index.state = state
    num_rows, num_leaves, num_frames = counts.tolist()
    index.parts.append(
        Part(
            nbytes=walk.position - begin,
            end=walk.position,
            num_rows=num_rows,
            num_leaves=num_leaves,
            num_frames=num_frames,
        )
    )


def read_old_part(walk: Walk, index: Index, state: dict[str, Any]) -> None:
    """Take in the one part of a file of version 1 or 2, whose head the walk has passed.

    Raises:
        FileFormatError: It is damaged, or goes on after its end.
    """
    begin, num_rows, num_frames = walk.position, 0, 0
    while count := COUNT.unpack(walk.take(COUNT.size))[0]:
        if count > MOST_ROWS or num_rows + count > index.capacity:
            raise walk.damaged(f"a block of {count} rows behind {num_rows} of {index.capacity}")
        if index.frame_nbytes:
            frames = COUNT.unpack(walk.take(COUNT.size))[0]
            index.add_frames(walk, frames)
            num_frames += frames
        rows_begin = walk.skip(count * index.row_nbytes)
        slots = slice(num_rows, num_rows + count)
        index.places[slots] = rows_begin + index.row_nbytes * np.arange(count, dtype=np.int64)
        index.leaves[slots] = leaves = walk.array("<f4", count)
        if not (np.isfinite(leaves).all() and (leaves > 0).all()):
            raise walk.damaged("a priority is not a positive number")
        num_rows += count
    _check_sum(walk)
    if not walk.is_over:
        raise walk.damaged("it goes on after its end")
    values = {**state, "next_slot": num_rows % index.capacity, "unit_exponent": None}
    index.state = _checked_state(walk, values, index.capacity)
    end = walk.position
    index.parts.append(Part(nbytes=end - begin, end=end, num_rows=num_rows, num_leaves=0, num_frames=num_frames))


def _read_state(walk: Walk, index: Index) -> State:
    nbytes = COUNT.unpack(walk.take(COUNT.size))[0]
    if nbytes > MOST_STATE_NBYTES:
        raise walk.damaged(f"a state of {nbytes} bytes")
    text = walk.take(nbytes)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:  # brackets without end
        raise walk.damaged("a state that is no JSON") from error
    return _checked_state(walk, values, index.capacity)


def _checked_state(walk: Walk, values: Any, capacity: int) -> State:
    try:
        return State.from_json(values, capacity)
    except (OverflowError, TypeError, ValueError) as error:
        raise walk.damaged("a state that makes no sense") from error


def _check_sum(walk: Walk) -> None:
    crc = walk.crc
    if CRC.unpack(walk.take(CRC.size))[0] != crc:
        raise walk.damaged("its checksum does not match")
