"""Replay files: one file, written aside and renamed, checked before anything is believed.

    | magic, version, header bytes, their CRC-32 | header (JSON) | blocks of rows, leaves | CRC-32 of all |

With shared observations a block starts with the frames that its rows are the first to refer to (how
many, their bytes). The header decides how much memory is taken, so it is checked by itself and first. Rows
are in the order of insertion, oldest first, without gaps. No pickle anywhere.
"""

import json
import os
import struct
import threading
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import FileFormatError
from drivetrain.replay import _native
from drivetrain.replay.frames import FramesIn, FramesOut
from drivetrain.replay.schema import Schema

_MAGIC = b"DRVTRPLY"
_VERSION = 2  # 1 had no frames, and is read as well
_HEAD = struct.Struct("<8sIII")
_BLOCK = struct.Struct("<I")  # rows in this block, 0 ends the blocks; also: frames in it
_CRC = struct.Struct("<I")


def save(path: Path, table: _native.Table, settings: dict[str, Any], schema: Schema) -> None:
    """Write the table's committed rows to `path`, atomically."""
    aside = path.with_name(f".{path.name}.{threading.get_native_id()}.tmp")
    try:
        with open(aside, "wb") as file:
            out = _Summed(file)
            stats = table.stats()
            state = {key: stats[key] for key in ("max_priority", "random_block", "num_inserted")}
            header = json.dumps({"settings": settings, "state": state}).encode()
            out.write(_HEAD.pack(_MAGIC, _VERSION, len(header), zlib.crc32(header)) + header)
            for rows, leaves, frames in _blocks(table, schema, settings["capacity"], stats["next_slot"]):
                out.write(_BLOCK.pack(len(leaves)))
                if frames is not None:
                    out.write(_BLOCK.pack(len(frames)) + frames.tobytes())
                out.write(rows.tobytes() + leaves.tobytes())
            out.write(_BLOCK.pack(0))
            file.write(_CRC.pack(out.crc))
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _blocks(
    table: _native.Table, schema: Schema, capacity: int, oldest: int
) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any] | None]]:
    """Committed rows and leaves (and frames), a bounded number at a time, oldest slot first."""
    row_nbytes = schema.row_stride - _native.ROW_HEADER_NBYTES
    step = max(1, min(_native.EXPORT_ROWS, 2**26 // (row_nbytes + schema.num_refs * schema.frame_stride)))
    sharing = FramesOut(table, schema) if schema.frame_stack else None
    for first, stop in ((oldest, capacity), (0, oldest)):
        for start in range(first, stop, step):
            count = min(step, stop - start)
            rows = np.empty((count, row_nbytes), np.uint8)
            leaves, generations = np.empty(count, np.float32), np.empty(count, np.uint32)
            frames = None
            if sharing:
                whole, frames = sharing.block(start, rows, leaves)
            else:
                table.export_rows(start, rows, leaves, generations)
                whole = generations > 0
            if whole.any():
                yield rows[whole], leaves[whole], frames


@dataclass
class Saved:
    """An open replay file whose head has been checked."""

    settings: dict[str, Any]
    state: dict[str, Any]
    reader: "_Summed"
    path: Path

    def restore(self, table: _native.Table, schema: Schema) -> None:
        """Fill an empty table; the checksum is verified before this returns."""
        row_nbytes = schema.row_stride - _native.ROW_HEADER_NBYTES
        sharing = FramesIn(table, schema) if schema.frame_stack else None
        while count := _BLOCK.unpack(self._take(_BLOCK.size))[0]:
            if count > _native.EXPORT_ROWS:
                raise FileFormatError(f"{self.path}: damaged (a block of {count} rows)")
            if sharing:
                num_frames = _BLOCK.unpack(self._take(_BLOCK.size))[0]
                if num_frames > count * schema.num_refs:
                    raise FileFormatError(f"{self.path}: damaged ({num_frames} frames for {count} rows)")
                frames = np.frombuffer(self._take(num_frames * schema.frame_stride), np.uint8)
                sharing.add(frames.reshape(num_frames, schema.frame_stride))
            rows = np.frombuffer(self._take(count * row_nbytes), np.uint8).reshape(count, row_nbytes)
            leaves = np.frombuffer(self._take(count * 4), np.float32)
            if not (np.isfinite(leaves).all() and (leaves > 0).all()):
                raise FileFormatError(f"{self.path}: damaged (a priority is not a positive number)")
            try:
                table.import_rows(rows, leaves, sharing.keys_of(rows) if sharing else None)
            except IndexError as error:
                raise FileFormatError(f"{self.path}: damaged (rows refer to frames that are not there)") from error
        crc = self.reader.crc
        if _CRC.unpack(self._take(_CRC.size))[0] != crc:
            raise FileFormatError(f"{self.path}: damaged (its checksum does not match); use an older copy")
        if self.reader.read(1):
            raise FileFormatError(f"{self.path}: damaged (it goes on after its end); use an older copy")
        table.restore(**self.state)

    def _take(self, nbytes: int) -> bytes:
        data = self.reader.read(nbytes)
        if len(data) != nbytes:
            raise FileFormatError(f"{self.path}: truncated; use an older copy")
        return data


@contextmanager
def opened(path: Path) -> Generator[Saved, None, None]:
    """Open a replay file and check its head."""
    with open(path, "rb") as file:
        reader = _Summed(file)
        head = reader.read(_HEAD.size)
        if len(head) < _HEAD.size or head[:8] != _MAGIC:
            raise FileFormatError(f"{path}: not a replay file of drivetrain (written by Replay.save)")
        _, version, header_nbytes, header_crc = _HEAD.unpack(head)
        if version > _VERSION:
            raise FileFormatError(
                f"{path}: written by a newer drivetrain (format {version}, this one reads {_VERSION}); "
                "upgrade drivetrain"
            )
        text = reader.read(header_nbytes)
        if len(text) != header_nbytes or zlib.crc32(text) != header_crc:
            raise FileFormatError(f"{path}: truncated or damaged header; use an older copy")
        try:
            header = json.loads(text)
            settings, state = dict(header["settings"]), dict(header["state"])
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(f"{path}: damaged header; use an older copy") from error
        yield Saved(settings, state, reader, path)


class _Summed:
    """A file that sums up (CRC-32) what passes through."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._nbytes = os.fstat(file.fileno()).st_size
        self.crc = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.crc = zlib.crc32(data, self.crc)

    def read(self, nbytes: int) -> bytes:
        data = self._file.read(min(nbytes, self._nbytes))  # a damaged length takes no memory
        self.crc = zlib.crc32(data, self.crc)
        return data
