"""Saving: a whole file written aside, or one more part behind those of the file we know.

    table ──▶ what has changed since the last save ──▶ part ──▶ disk ──▶ commit ──▶ disk

Until the commit is there, the file is that of the save before.
"""

import contextlib
import fcntl
import json
import os
import zlib
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from drivetrain.core.aside import remove_stale, written_aside
from drivetrain.core.errors import FileFormatError
from drivetrain.replay import _native
from drivetrain.replay.files.format import (
    COMMIT,
    ENTRY_NBYTES,
    HEAD,
    MAGIC,
    NUM_COMMITS,
    SECTOR_NBYTES,
    VERSION,
    Commit,
    unpack_commits,
)
from drivetrain.replay.files.frames import MOST_NUMBERS
from drivetrain.replay.files.part import Known, Summed, write_part
from drivetrain.replay.schema import Schema


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
    header = _header(settings)
    head = HEAD.pack(MAGIC, VERSION, len(header), zlib.crc32(header)) + header
    with written_aside(path) as file:
        out = Summed(file)
        out.write(head, bytes(NUM_COMMITS * COMMIT.size))
        start = out.nbytes
        write_part(out, table, schema, known)
        commit = Commit(1, out.nbytes)
        _write_commit(file, commit, start)
        fd = file.fileno()
        known = replace(known, identity=identity_of(fd), start=start, commit=commit)
    return known, commit.end


def _header(settings: dict[str, Any]) -> bytes:
    """With spaces behind it where commits would lie across a border of sectors, at which a write can be torn."""
    header = json.dumps({"settings": settings}).encode()
    before_border = -(HEAD.size + len(header)) % SECTOR_NBYTES
    return header + b" " * before_border if before_border < NUM_COMMITS * COMMIT.size else header


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
        remove_stale(Path(os.path.realpath(path)))  # as a file that is written anew does
        known, end = known.copy(), known.commit.end
        out = Summed(file)
        try:
            file.truncate(end)  # what somebody did not finish
            file.seek(end)
            write_part(out, table, schema, known)
            os.fsync(file.fileno())
        except BaseException as error:
            with contextlib.suppress(OSError):
                file.truncate(end)
            if isinstance(error, OSError) and error.filename is None:  # a write names no file
                error.filename = str(path)
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
    row_nbytes = schema.row_stride - _native.ROW_HEADER_NBYTES + ENTRY_NBYTES
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
