"""Loading: everything in a file is found and checked first, then put into an empty table.

    file ──▶ head ──▶ index of all parts ──▶ frames, rows, oldest first ──▶ table

A file is read twice, and nothing of it is believed before the first time is over.
"""

import json
import os
import stat
import warnings
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import FileFormatError
from drivetrain.core.segments import require_memory
from drivetrain.replay import _native
from drivetrain.replay.files.format import (
    COMMIT,
    HEAD,
    MAGIC,
    NUM_COMMITS,
    VERSION,
    Commit,
    pieces,
    unpack_commits,
)
from drivetrain.replay.files.frames import FramesIn
from drivetrain.replay.files.index import Index, read_old_part, read_part
from drivetrain.replay.files.part import Known
from drivetrain.replay.files.walk import Walk
from drivetrain.replay.files.writing import identity_of
from drivetrain.replay.schema import Schema

_INDEX_NBYTES = 40  # per row: of the index, and of its order


@dataclass(kw_only=True)
class Saved:
    """An open replay file whose head has been checked."""

    path: Path
    version: int
    nbytes: int
    settings: dict[str, Any]
    commits: list[Commit]
    """Newest first; none in files of version 1 and 2."""
    num_left_out: int
    """Bytes behind the last part that counts."""
    is_cut: bool
    """Whether a part that once counted is not whole any more."""
    _file: BufferedReader
    _start: int
    _old_state: dict[str, Any]
    _identity: tuple[int, ...]

    def index(self, schema: Schema, capacity: int) -> Index:
        """Walk over the whole file and check it.

        Raises:
            FileFormatError: It is damaged.
            SegmentError: There is not enough memory for 40 bytes per row.
        """
        what = f"{self.path}: reading a file of {capacity} rows"
        require_memory(capacity * _INDEX_NBYTES, what=what, remedy="read it where there is more")
        index = Index.empty(schema, capacity)
        if not self.commits:
            walk = Walk(self.path, self._file, 0, self.nbytes)
            walk.skip(self._start)  # its checksum is of all that is before it
            read_old_part(walk, index, self._old_state)
            return index
        walk = Walk(self.path, self._file, self._start, self.commits[0].end)
        try:
            for _ in range(self.commits[0].number):
                read_part(walk, index)
        except FileFormatError as error:
            ends = [part.end for part in index.parts]
            for before in [commit for commit in self.commits[1:] if commit.end in ends]:
                whole = f"load the save before, which is whole (save_number={before.number})"
                raise FileFormatError(f"{error}, or {whole}") from error
            raise
        if any(index.parts[commit.number - 1].end != commit.end for commit in self.commits):
            raise walk.damaged("its parts end elsewhere than it says")
        return index

    def restore(self, table: _native.Table, schema: Schema, index: Index, capacity: int) -> Known | None:
        """Fill an empty table of `capacity` rows with the newest of them.

        Returns:
            What is known of the file; None if the table has other rows, or cannot be added to it.
        """
        state, order = index.state, index.order()
        assert state is not None
        stays = len(order) == index.capacity == capacity  # no row is missing: each goes back to its slot
        kept = np.arange(capacity) if stays else order[max(0, len(order) - capacity) :]
        if state.unit_exponent is not None:
            table.restore_unit(state.unit_exponent)
        frames = self._restore_frames(table, schema, index, kept) if schema.frame_stack else None
        for some, rows in self.rows(index, kept):
            table.import_rows(rows, index.leaves[some], frames.keys_of(rows) if frames else None)
        next_slot = state.next_slot if stays else len(kept) % capacity
        table.restore(state.max_priority, state.random_block, state.num_inserted, next_slot)
        table.set_alpha(state.alpha, False)
        is_whole = table.stats()["size"] == len(order)
        if not self.commits or self.is_cut or capacity != index.capacity or not is_whole:
            return None
        return self._known(table, schema, frames, capacity, moved=not stays)

    def used_frames(self, schema: Schema, index: Index, slots: npt.NDArray[np.int64]) -> FramesIn:
        """The frames of the rows in these slots, marked.

        Raises:
            FileFormatError: Rows refer to frames that are not there.
        """
        frames = FramesIn(len(index.frame_places()), schema)
        for _, rows in self.rows(index, slots):
            try:
                frames.mark(rows)
            except IndexError as error:
                raise FileFormatError(f"{self.path}: damaged (rows refer to frames that are not there)") from error
        return frames

    def rows(
        self, index: Index, slots: npt.NDArray[np.int64]
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]]:
        """The rows of these slots, some at a time: (their slots, their bytes)."""
        for some in pieces(0, len(slots), index.row_nbytes):
            yield slots[some], self._read_items(index.places[slots[some]], index.row_nbytes)

    def _read_items(self, places: npt.NDArray[np.int64], nbytes: int) -> npt.NDArray[np.uint8]:
        """The items of `nbytes` at these places, read in runs of neighbours."""
        items = np.empty((len(places), nbytes), np.uint8)
        begins = np.flatnonzero(np.diff(places, prepend=-1 - nbytes) != nbytes)
        for begin, end in zip(begins, [*begins[1:], len(places)], strict=True):
            view, place = memoryview(cast(Any, items[begin:end])).cast("B"), int(places[begin])
            while view:
                num = os.preadv(self._file.fileno(), [view], place)
                if num == 0:
                    raise FileFormatError(f"{self.path}: truncated while it was read")
                view, place = view[num:], place + num
        return items

    def _restore_frames(
        self, table: _native.Table, schema: Schema, index: Index, kept: npt.NDArray[np.int64]
    ) -> FramesIn:
        frames, places = self.used_frames(schema, index, kept), index.frame_places()
        marked = frames.marked()
        for some in pieces(0, len(marked), schema.frame_stride):
            numbers = marked[some]
            frames.store(table, numbers, self._read_items(places[numbers], schema.frame_stride))
        return frames

    def _known(
        self, table: _native.Table, schema: Schema, frames: FramesIn | None, capacity: int, *, moved: bool
    ) -> Known:
        generations, leaves = np.empty(capacity, np.uint32), np.empty(capacity, np.float32)
        table.export_leaves(0, table.alpha(), leaves, generations)
        leaves[generations == 0] = 0
        return Known(
            generations=generations,
            leaves=leaves,
            frames=frames.known(table) if frames else None,
            identity=self._identity,
            start=self._start,
            commit=self.commits[0],
            moved=moved,
        )


@contextmanager
def opened(path: Path, save_number: int | None = None) -> Generator[Saved, None, None]:
    """Open a replay file and check its head.

    Args:
        path: Of the file.
        save_number: The save to read, the last one or the one before; None: the last one that is whole.

    Warns:
        UserWarning: Its last part was not finished, or is cut short, and is left out; not if
            `save_number` says what to read.

    Raises:
        FileFormatError: It is foreign, from a newer version, damaged, has no whole part, or not the
            one asked for.
        OSError: It cannot be opened, or read, also later on; the error names it.
    """
    with _naming(path), open(path, "rb", opener=_without_waiting) as file:
        _require_regular(path, file)
        head = file.read(HEAD.size)
        if len(head) < HEAD.size or not head.startswith(MAGIC):
            raise FileFormatError(f"{path}: not a replay file of drivetrain (written by Replay.save)")
        _, version, header_nbytes, header_crc = HEAD.unpack(head)
        if version > VERSION:
            raise FileFormatError(
                f"{path}: written by a newer drivetrain (format {version}, this one reads {VERSION}); "
                "upgrade drivetrain"
            )
        text = file.read(min(header_nbytes, os.fstat(file.fileno()).st_size))
        header = _header(path, text, header_nbytes, header_crc)
        packed = file.read(NUM_COMMITS * COMMIT.size) if version == VERSION else b""
        identity = identity_of(file.fileno())  # after the commits: what they speak of is there
        nbytes = identity[2]
        commits, stale = _commits(path, packed, nbytes) if version == VERSION else ([], [])
        if save_number is not None:
            commits = [commit for commit in commits if commit.number <= save_number]
            if not commits or commits[0].number != save_number:
                raise FileFormatError(f"{path}: save {save_number} is not in it whole; use an older copy")
        num_left_out = nbytes - commits[0].end if commits else 0
        if (num_left_out or stale) and save_number is None:
            why = "is cut short" if stale else "was not finished"
            message = f"{path}: its last part {why}; {num_left_out} bytes are left out, and the save before it is read"
            warnings.warn(message, stacklevel=4)
        yield Saved(
            path=path,
            version=version,
            nbytes=nbytes,
            settings=header["settings"],
            commits=commits,
            num_left_out=num_left_out,
            is_cut=bool(stale),
            _file=file,
            _start=file.tell(),
            _old_state={**header.get("state", {}), "alpha": header["settings"].get("alpha")},
            _identity=identity,
        )


@contextmanager
def _naming(path: Path) -> Generator[None, None, None]:
    """Has errors of reads, of a disk that fails, say of which file they are."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _without_waiting(name: str, flags: int) -> int:
    """Opens a file; a pipe would be waited for. What else it is, is asked once the file owns its descriptor: Ctrl-C
    in between would leave that open.
    """
    return os.open(name, flags | os.O_NONBLOCK)


def _require_regular(path: Path, file: BufferedReader) -> None:
    """Refuse what cannot be read twice."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise FileFormatError(
            f"{path}: expected a file that Replay.save wrote, got a pipe or a device; save it to a file first"
        )


def _header(path: Path, text: bytes, nbytes: int, crc: int) -> dict[str, dict[str, Any]]:
    if len(text) != nbytes or zlib.crc32(text) != crc:
        raise FileFormatError(f"{path}: truncated or damaged header; use an older copy")
    try:
        header: Any = json.loads(text)
        return {
            name: dict(cast(dict[str, Any], header[name]))
            for name in ("settings", "state")
            if name in header or name == "settings"
        }
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileFormatError(f"{path}: damaged header; use an older copy") from error


def _commits(path: Path, data: bytes, nbytes: int) -> tuple[list[Commit], list[Commit]]:
    """The commits that hold, newest first, and those whose part the file does not have whole."""
    if len(data) != NUM_COMMITS * COMMIT.size:
        raise FileFormatError(f"{path}: truncated; use an older copy")
    try:
        commits = unpack_commits(data)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}; use an older copy") from None
    whole = [commit for commit in commits if commit.end <= nbytes]
    if not whole:
        raise FileFormatError(
            f"{path}: truncated (expected {commits[-1].end:,} bytes at least, got {nbytes:,}); use an older copy"
        )
    return whole, [commit for commit in commits if commit.end > nbytes]
