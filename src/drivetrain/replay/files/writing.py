"""Saving: a whole file written aside, or one more part behind those of the file we know.

table ──▶ what has changed since the last save ──▶ part ──▶ disk ──▶ commit ──▶ disk
"""

import contextlib
import fcntl
import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import FileFormatError
from drivetrain.replay import _native
from drivetrain.replay.files.aside import written_aside
from drivetrain.replay.files.format import (
    BLOCK,
    COMMIT,
    COUNT,
    CRC,
    HEAD,
    MAGIC,
    MOST_ROWS,
    NUM_COMMITS,
    VERSION,
    Commit,
    State,
    unpack_commits,
)
from drivetrain.replay.files.frames import MOST_NUMBERS, FramesOut
from drivetrain.replay.schema import Schema

_MOST_NBYTES = 2**26  # of a block, about
_ENTRY_NBYTES = 8  # slot and leaf


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


def save(
    path: Path, table: _native.Table, settings: dict[str, Any], schema: Schema, known: Known | None
) -> tuple[Known, int]:
    """Write the committed rows of a table to `path`.

    Args:
        path: Of the file.
        table: Others may go on changing it.
        settings: For the header.
        schema: Of its rows.
        known: What is known to be in the file: then only what has changed is added to it, if it still is
            that file and less than half of it would be dead. None: the file is written anew.

    Returns:
        What is known of the file now, and how many bytes were written.
    """
    if known is not None:
        added = _add_part(path, table, schema, known)
        if added is not None:
            return added
    known = Known.nothing(table, schema, settings["capacity"])
    header = json.dumps({"settings": settings}).encode()
    head = HEAD.pack(MAGIC, VERSION, len(header), zlib.crc32(header)) + header
    with written_aside(path) as file:
        out = _Summed(file)
        out.write(head, bytes(NUM_COMMITS * COMMIT.size))
        start = out.nbytes
        _write_part(out, table, schema, known)
        commit = Commit(1, out.nbytes)
        _write_commit(file, commit, start)
        fd = file.fileno()
        known = replace(known, identity=identity_of(fd), start=start, commit=commit)
    return known, commit.end


def identity_of(fd: int) -> tuple[int, ...]:
    """What tells a file from another, and from itself after it was written to."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _add_part(path: Path, table: _native.Table, schema: Schema, known: Known) -> tuple[Known, int] | None:
    """Add what has changed to the file; None, with nothing changed, if it has to be written anew."""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "r+b", buffering=0))
        except OSError:
            return None
        if not _is_ours(file, known) or _is_mostly_dead(table, schema, known):
            return None
        known, end = known.copy(), known.commit.end
        out = _Summed(file)
        try:
            file.truncate(end)  # what somebody did not finish
            file.seek(end)
            _write_part(out, table, schema, known)
            os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                file.truncate(end)
            raise
        commit = Commit(known.commit.number + 1, end + out.nbytes)
        _write_commit(file, commit, known.start)
        os.fsync(file.fileno())
        known = replace(known, identity=identity_of(file.fileno()), commit=commit, moved=False)
        return known, out.nbytes + COMMIT.size


def _is_ours(file: IO[bytes], known: Known) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the file being closed
    except OSError:
        return False  # another thread or process is adding to it
    if identity_of(file.fileno()) != known.identity:
        return False
    places_nbytes = NUM_COMMITS * COMMIT.size
    try:  # somebody may have added to it while we were reading it
        return unpack_commits(os.pread(file.fileno(), places_nbytes, known.start - places_nbytes))[0] == known.commit
    except FileFormatError:
        return False


def _is_mostly_dead(table: _native.Table, schema: Schema, known: Known) -> bool:
    """Whether most of the file would be of no use once what has changed is added."""
    now = np.empty(len(known.generations), np.uint32)
    table.export_generations(0, now)
    whole = (now > 0) & (now % 2 == 0)
    row_nbytes = schema.row_stride - _native.ROW_HEADER_NBYTES + _ENTRY_NBYTES
    alive = int(np.count_nonzero(whole)) * row_nbytes
    added = int(np.count_nonzero(whole & (now != known.generations))) * row_nbytes
    if known.frames:
        slots, num_whole = known.frames.changed()
        if known.frames.num_written + len(slots) + num_whole >= MOST_NUMBERS:
            return True
        alive += num_whole * schema.frame_stride
        added += len(slots) * schema.frame_stride
    return known.commit.end + added > 2 * (known.start + alive)


def _write_commit(file: IO[bytes], commit: Commit, start: int) -> None:
    places = start - NUM_COMMITS * COMMIT.size
    os.pwrite(file.fileno(), commit.pack(), places + commit.number % NUM_COMMITS * COMMIT.size)


def _write_part(out: "_Summed", table: _native.Table, schema: Schema, known: Known) -> None:
    """Write what `known` does not have, and note it there."""
    out.crc = 0
    stats = table.stats()
    names = ("max_priority", "random_block", "num_inserted", "next_slot", "unit_exponent")
    state = State(**{name: stats[name] for name in names}, alpha=table.alpha(), moved=known.moved)
    text = json.dumps(state.to_json()).encode()
    out.write(COUNT.pack(len(text)), text)
    for frames in known.frames.blocks() if known.frames else ():
        out.write(BLOCK.pack(0, 0, len(frames)), frames)
    for first, stop in ((stats["next_slot"], len(known.leaves)), (0, stats["next_slot"])):
        for start, count in _steps(first, stop, schema):
            changes = _changes(table, schema, known, start, count)
            if len(changes.slots) or len(changes.frames):
                out.write(*changes.packed())
    out.write(BLOCK.pack(0, 0, 0))
    out.write(CRC.pack(out.crc))


def _steps(first: int, stop: int, schema: Schema) -> Iterator[tuple[int, int]]:
    """Slots [first, stop) in pieces of a bounded number of bytes."""
    row_nbytes = schema.row_stride + schema.num_refs * schema.frame_stride
    step = max(1, min(MOST_ROWS, _MOST_NBYTES // row_nbytes))
    for start in range(first, stop, step):
        yield start, min(step, stop - start)


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


def _changes(table: _native.Table, schema: Schema, known: Known, start: int, count: int) -> _Changes:
    """What has changed in these slots, noted in `known`."""
    of_file = slice(start, start + count)
    before = known.generations[of_file]
    generations, leaves = np.empty(count, np.uint32), np.empty(count, np.float32)
    table.export_leaves(start, leaves, generations)
    new = np.flatnonzero((generations != before) & (generations > 0))
    span = slice(int(new[0]), int(new[-1]) + 1) if len(new) else slice(0, 0)
    rows, frames = _copied(table, schema, known, start + span.start, leaves[span], generations[span])
    is_new = (generations != before) & (generations > 0)
    leaves[generations == 0] = 0
    other = np.flatnonzero(~is_new & (leaves != known.leaves[of_file]))
    chosen = np.concatenate([np.flatnonzero(is_new), other])
    known.generations[of_file], known.leaves[of_file] = generations, leaves
    return _Changes((start + chosen).astype(np.uint32), leaves[chosen], rows[is_new[span]], frames)


def _copied(
    table: _native.Table,
    schema: Schema,
    known: Known,
    first: int,
    leaves: npt.NDArray[np.float32],
    generations: npt.NDArray[np.uint32],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The rows of slots `first` onwards, with the leaves and generations they have now, and new frames."""
    rows = np.empty((len(leaves), schema.row_stride - _native.ROW_HEADER_NBYTES), np.uint8)
    if known.frames and len(rows):
        return rows, known.frames.rows(first, rows, leaves, generations)
    if len(rows):
        table.export_rows(first, rows, leaves, generations)
    return rows, rows[:0]


class _Summed:
    """A file that sums up (CRC-32) and counts what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.crc = 0
        self.nbytes = 0

    def write(self, *pieces: Any) -> None:
        for piece in pieces:
            view = memoryview(piece)
            if view.nbytes == 0:
                continue
            view = view.cast("B")
            self.crc = zlib.crc32(view, self.crc)
            self.nbytes += len(view)
            while view:
                view = view[self._file.write(view) :]
