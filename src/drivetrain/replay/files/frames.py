"""Frames of shared observations on their way to a file and back (see replay/frames.py).

    ring of frames ──▶ FramesOut ──▶ numbers in the file ──▶ FramesIn ──▶ ring of frames

A file numbers frames in the order of their ring, through all of its parts; rows in it refer to these
numbers. Frames that no row refers to yet go as well, if they are newer than one that a row does refer to: open windows
will need them, and the order stays.
"""

from collections.abc import Iterator
from copy import copy

import numpy as np
import numpy.typing as npt

from drivetrain.replay import _native
from drivetrain.replay.files.format import pieces
from drivetrain.replay.schema import Schema

NO_FRAME = np.uint32(2**32 - 1)
"""In place of a reference to a frame that there is not; as slot, number and key."""
MOST_NUMBERS = 2**32 - 1

Rows = npt.NDArray[np.uint8]
Frames = npt.NDArray[np.uint8]


class FramesOut:
    """Which frames of a table a file has, and under which numbers."""

    def __init__(self, table: _native.Table, schema: Schema) -> None:
        self._table, self._schema = table, schema
        count = table.num_frames
        self._numbers = np.zeros(count, np.uint32)  # in the file, by slot
        self._generations = np.zeros(count, np.uint32)  # of the frame that has this number; 0: none
        self.num_written = 0

    def copy(self) -> "FramesOut":
        """The same, to go on from without changing this."""
        other = copy(self)
        other._numbers, other._generations = self._numbers.copy(), self._generations.copy()
        return other

    def note(self, keys: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint32], num_written: int) -> None:
        """Frames that came from the file under these numbers; it has `num_written` in all."""
        slots = (keys & np.uint64(2**32 - 1)).astype(np.int64)
        self._numbers[slots], self._generations[slots] = numbers, (keys >> np.uint64(32)).astype(np.uint32)
        self.num_written = num_written

    def changed(self) -> tuple[npt.NDArray[np.uint32], int]:
        """Slots of whole frames that the file does not have, oldest first, and how many are whole; but for those older
        than any that a row refers to, as all are once the replay was cleared.
        """
        first, num_idle = self._table.idle_frames()
        count = len(self._generations)
        slots = ((first + np.arange(num_idle, count)) % count).astype(np.uint32)
        now = self._now(slots)
        return slots[(now != self._generations[slots]) & (now > 0)], int(np.count_nonzero(now))

    def blocks(self) -> Iterator[Frames]:
        """All frames that the file does not have, oldest first; they are numbered as they come."""
        slots, _ = self.changed()
        for some in pieces(0, len(slots), self._schema.frame_stride):
            frames, generations = self._export(slots[some])
            yield self._numbered(slots[some], frames, generations, generations > 0)

    def rows(
        self,
        first: int,
        alpha: float,
        rows: Rows,
        leaves: npt.NDArray[np.float32],
        generations: npt.NDArray[np.uint32],
    ) -> Frames:
        """Fill in rows, leaves by alpha and generations (0: no whole row) of slots `first` onwards, with numbers for
        references; returns frames, new meanwhile, that must come before them in the file.

        A row that is overwritten again and again meanwhile is left out, as one being written is.
        """
        slots, frames, current, lost = self._copied(first, alpha, rows, leaves, generations)
        for _ in range(3):
            if lost.any():
                slots, frames, current, lost = self._copied(first, alpha, rows, leaves, generations)
        generations[lost] = 0
        refs = refs_of(rows, self._schema)
        new = np.isin(slots, refs[generations > 0])
        written = self._numbered(slots, frames, current, new)
        some = refs != NO_FRAME
        refs[some] = self._numbers[refs[some]]
        return written

    def _copied(
        self,
        first: int,
        alpha: float,
        rows: Rows,
        leaves: npt.NDArray[np.float32],
        generations: npt.NDArray[np.uint32],
    ) -> tuple[npt.NDArray[np.uint32], Frames, npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
        """Copies rows, and those of their frames that the file lacks: slots, bytes and generations of
        these, and which rows were lost to a change meanwhile.
        """
        self._table.export_rows(first, alpha, rows, leaves, generations)
        slots = np.unique(refs_of(rows, self._schema)[generations > 0])
        slots = slots[slots != NO_FRAME]
        slots = self._by_age(slots[self._now(slots) != self._generations[slots]])
        frames, current = self._export(slots)
        after = np.empty(len(rows), np.uint32)
        self._table.export_generations(first, after)
        lost = (generations > 0) & (after != generations)  # the others saw their own frames, unchanged
        return slots, frames, current, lost

    def _now(self, slots: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        generations = np.empty(len(slots), np.uint32)
        self._table.export_frame_generations(slots, generations)
        return generations

    def _export(self, slots: npt.NDArray[np.uint32]) -> tuple[Frames, npt.NDArray[np.uint32]]:
        frames = np.empty((len(slots), self._schema.frame_stride), np.uint8)
        generations = np.empty(len(slots), np.uint32)
        self._table.export_frames(slots, frames, generations)
        return frames, generations

    def _by_age(self, slots: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        next_frame = self._table.stats()["next_frame"]
        age = (slots.astype(np.int64) - next_frame) % len(self._numbers)
        return np.ascontiguousarray(slots[np.argsort(age, kind="stable")])

    def _numbered(
        self,
        slots: npt.NDArray[np.uint32],
        frames: Frames,
        generations: npt.NDArray[np.uint32],
        chosen: npt.NDArray[np.bool_],
    ) -> Frames:
        """Give the chosen frames the next numbers."""
        slots, frames = slots[chosen], frames[chosen]
        self._numbers[slots] = self.num_written + np.arange(len(slots), dtype=np.uint32)
        self._generations[slots] = generations[chosen]
        self.num_written += len(slots)
        return frames


class FramesIn:
    """Frames coming back from a file: first those that rows refer to are marked, then they are stored."""

    def __init__(self, num_frames: int, schema: Schema) -> None:
        self._schema = schema
        self._keys = np.full(num_frames, NO_FRAME, np.uint64)
        self._marked = np.zeros(num_frames, np.bool_)

    def mark(self, rows: Rows) -> None:
        """Note which frames raw rows refer to.

        Raises:
            IndexError: They refer to frames that the file does not have.
        """
        refs = refs_of(rows, self._schema)
        self._marked[refs[refs != NO_FRAME]] = True

    def marked(self) -> npt.NDArray[np.int64]:
        """Their numbers, in order."""
        return np.flatnonzero(self._marked)

    def store(self, table: _native.Table, numbers: npt.NDArray[np.int64], frames: Frames) -> None:
        """Put these frames behind those that the table has."""
        keys = np.empty(len(frames), np.uint64)
        table.import_frames(frames, keys)
        self._keys[numbers] = keys

    def keys_of(self, rows: Rows) -> npt.NDArray[np.uint64]:
        """The keys `[count, num_refs]` of the frames of raw rows."""
        refs = refs_of(rows, self._schema)
        keys = np.full(refs.shape, NO_FRAME, np.uint64)
        some = refs != NO_FRAME
        keys[some] = self._keys[refs[some]]
        return keys

    def known(self, table: _native.Table) -> FramesOut:
        """What a file that a table came from has of the table's frames."""
        out, numbers = FramesOut(table, self._schema), self.marked()
        out.note(self._keys[numbers], numbers.astype(np.uint32), len(self._keys))
        return out


def refs_of(rows: Rows, schema: Schema) -> npt.NDArray[np.uint32]:
    """The references in raw rows, a view `[count, num_refs]`, behind the link of their list (8 bytes)."""
    return rows.view(np.uint32)[:, 2 : 2 + schema.num_refs]
