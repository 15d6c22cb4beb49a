"""One part of a file: what has changed in a table since the last one.

    generations, leaves ──▶ compared with what is known of the file ──▶ blocks

Rows whose generation differs are written, and leaves alone where only these do.
"""

import json
import os
import zlib
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from drivetrain.replay import _native
from drivetrain.replay.files.format import BLOCK, COUNT, CRC, Commit, State, pieces
from drivetrain.replay.files.frames import FramesOut
from drivetrain.replay.schema import Schema

_STATE_NBYTES = 256  # its seven numbers take some 220 at most
_MOST_PASSES = 4  # over rows that came meanwhile: one is enough, unless as many came as there are slots


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the file holds that a replay was last saved to or loaded from.

    Eight bytes per row, and eight per frame: which row and leaf of each slot the file has.
    """

    generations: npt.NDArray[np.uint32]
    leaves: npt.NDArray[np.float32]
    frames: FramesOut | None
    identity: tuple[int, ...]
    """Of the file, as it was left: any other is not the one we know."""
    start: int
    """Where its parts begin."""
    commit: Commit
    moved: bool = False
    """Whether the replay was loaded from it since, so that rows lie elsewhere now."""

    @classmethod
    def nothing(cls, table: _native.Table, schema: Schema, capacity: int) -> "Known":
        """Of a file that is not there yet."""
        return cls(
            generations=np.zeros(capacity, np.uint32),
            leaves=np.zeros(capacity, np.float32),
            frames=FramesOut(table, schema) if schema.frame_stack else None,
            identity=(),
            start=0,
            commit=Commit(0, 0),
        )

    def copy(self) -> "Known":
        """The same, to note changes in while they are written."""
        frames = self.frames.copy() if self.frames else None
        return replace(self, generations=self.generations.copy(), leaves=self.leaves.copy(), frames=frames)


def write_part(out: "Summed", table: _native.Table, schema: Schema, known: Known) -> None:
    """Write what `known` does not have, and note it there."""
    out.crc = 0
    written, begin = _state(table, known), out.nbytes
    out.write(_packed(written))
    for frames in known.frames.blocks() if known.frames else ():
        if len(frames):  # all of a block may be in another's hands just now, and an empty one would end the part
            out.write(BLOCK.pack(0, 0, len(frames)), frames)
    state = _write_rows(out, table, schema, known)
    out.rewrite(begin, _packed(written), _packed(state))
    out.write(BLOCK.pack(0, 0, 0))
    out.write(CRC.pack(out.crc))


def _write_rows(out: "Summed", table: _native.Table, schema: Schema, known: Known) -> State:
    """Write the rows of all slots, and once more those of slots that were given to others meanwhile.

    Whoever writes meanwhile takes the slots that the walk begins with, so that it finds some of the newest rows where
    the oldest were, and others not. Behind the second walk, which ends where the ring was by then, lie the oldest.

    Returns:
        Of when that was: all that was written and is newer than it follows in the next part.
    """
    capacity = len(known.leaves)
    row_nbytes = schema.row_stride + schema.num_refs * schema.frame_stride
    state, num_walked = _state(table, known), capacity
    for is_last in (False,) * (_MOST_PASSES - 1) + (True,):
        for first, stop in _ring(state.next_slot - num_walked, num_walked, capacity):
            for slots in pieces(first, stop, row_nbytes):
                changes = _changes(table, schema, known, state.alpha, slots)
                if len(changes.slots) or len(changes.frames):
                    out.write(*changes.packed())
        latest = _state(table, known)
        if latest.alpha != state.alpha:  # which leaves are by, and so is the unit that they are multiples of
            latest = replace(latest, alpha=state.alpha, unit_exponent=state.unit_exponent)
        is_round = latest.num_inserted - state.num_inserted >= capacity
        num_new = capacity if is_round else (latest.next_slot - state.next_slot) % capacity
        if is_last or num_new <= capacity - num_walked:  # in slots that this walk did not come to
            break
        state, num_walked = latest, num_new
    return state


def _ring(first: int, count: int, capacity: int) -> list[tuple[int, int]]:
    """So many slots of the ring from one on, as ranges."""
    first %= capacity
    return [(first, min(first + count, capacity)), (0, max(0, first + count - capacity))]


def _state(table: _native.Table, known: Known) -> State:
    """What a part says of the whole replay now."""
    stats = table.stats()
    names = ("max_priority", "random_block", "num_inserted", "next_slot", "unit_exponent")
    return State(**{name: stats[name] for name in names}, alpha=table.alpha(), moved=known.moved)


def _packed(state: State) -> bytes:
    """A state as it stands in a file, where it is written anew: with room for longer numbers."""
    text = json.dumps(state.to_json()).encode().ljust(_STATE_NBYTES)
    return COUNT.pack(len(text)) + text


@dataclass(frozen=True)
class _Changes:
    """What goes into a block: rows with their slots and leaves, leaves alone, frames before them."""

    slots: npt.NDArray[np.uint32]
    leaves: npt.NDArray[np.float32]
    rows: npt.NDArray[np.uint8]
    frames: npt.NDArray[np.uint8]

    def packed(self) -> tuple[Any, ...]:
        counts = BLOCK.pack(len(self.rows), len(self.slots) - len(self.rows), len(self.frames))
        return counts, self.slots, self.leaves, self.frames, self.rows


def _changes(table: _native.Table, schema: Schema, known: Known, alpha: float, slots: slice) -> _Changes:
    """What has changed in these slots, noted in `known`; all leaves by this alpha, which may change meanwhile."""
    start, before = slots.start, known.generations[slots]
    generations, leaves = np.empty(len(before), np.uint32), np.empty(len(before), np.float32)
    table.export_leaves(start, alpha, leaves, generations)
    new = np.flatnonzero((generations != before) & (generations > 0))
    span = slice(int(new[0]), int(new[-1]) + 1) if len(new) else slice(0, 0)
    rows, frames = _copied(table, schema, known, alpha, start + span.start, leaves[span], generations[span])
    is_new = (generations != before) & (generations > 0)
    leaves[generations == 0] = 0
    other = np.flatnonzero(~is_new & (leaves != known.leaves[slots]))
    chosen = np.concatenate([np.flatnonzero(is_new), other])
    known.generations[slots], known.leaves[slots] = generations, leaves
    if not is_new[span].all():
        rows = rows[is_new[span]]
    return _Changes((start + chosen).astype(np.uint32), leaves[chosen], rows, frames)


def _copied(
    table: _native.Table,
    schema: Schema,
    known: Known,
    alpha: float,
    first: int,
    leaves: npt.NDArray[np.float32],
    generations: npt.NDArray[np.uint32],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The rows of slots `first` onwards, with the leaves and generations they have now, and new frames."""
    rows = np.empty((len(leaves), schema.row_stride - _native.ROW_HEADER_NBYTES), np.uint8)
    if known.frames and len(rows):
        return rows, known.frames.rows(first, alpha, rows, leaves, generations)
    if len(rows):
        table.export_rows(first, alpha, rows, leaves, generations)
    return rows, rows[:0]


class Summed:
    """A file that sums up (CRC-32) and counts what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.crc = 0
        self.nbytes = 0

    def write(self, *pieces: Any) -> None:
        """Append what has a buffer."""
        for piece in pieces:
            view = memoryview(piece)
            if view.nbytes == 0:
                continue
            view = view.cast("B")
            self.crc = zlib.crc32(view, self.crc)
            self.nbytes += len(view)
            while view:
                view = view[self._file.write(view) :]

    def rewrite(self, begin: int, before: bytes, after: bytes) -> None:
        """Put other bytes, as many, in the place of some that were written when `nbytes` was `begin`."""
        behind = self.nbytes - begin
        os.pwrite(self._file.fileno(), after, self._file.tell() - behind)
        self.crc ^= _crc_behind(zlib.crc32(before) ^ zlib.crc32(after), behind - len(before))


def _crc_behind(crc: int, nbytes: int) -> int:
    """What a difference of two sums (CRC-32) becomes once so many bytes, alike in both, have followed.

    That is crc * x^(8 nbytes), modulo the polynomial of the sum; the highest bit is that of x^0.
    """
    power = 1 << 23  # x^8, then its squares
    while nbytes:
        if nbytes & 1:
            crc = _crc_product(crc, power)
        power = _crc_product(power, power)
        nbytes >>= 1
    return crc


def _crc_product(a: int, b: int) -> int:
    """The product of two polynomials, modulo that of the sum."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (0xEDB88320 if b & 1 else 0)
    return product
