"""Files written aside and renamed: there is always a complete one, whoever is killed.

    .NAME.PID.START.THREAD.tmp ──▶ NAME

START is the time at which process PID started, so that a number used again names nobody else. Whoever
writes one also holds a lock on it, which ends with the process, seen from any container.
"""

import contextlib
import errno
import fcntl
import io
import os
import re
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from drivetrain.core import _native

_SUFFIX = ".tmp"


@contextmanager
def written_aside(path: Path) -> Generator[IO[bytes], None, None]:
    """A new file that takes the place of `path` when the block ends, or goes away when it raises.

    First removes what dead processes have left of theirs for the same path. Where that is a link, what it leads to is
    replaced. The new file has the permissions of the old one, and its owner and group where it may give those.

    Raises:
        OSError: `path`, which the error names, cannot be written, or is a folder or a device.
    """
    given, path = path, Path(os.path.realpath(path))
    try:
        _require_file(path)
        with _replacing(path) as file:
            yield file
    except OSError as error:
        if error.filename is None or str(error.filename).endswith(_SUFFIX):  # a write names no file
            error.filename = str(given)
            if error.filename2 is not None:  # of the rename; set to None it would be printed
                del error.filename2
        raise


def save_text(path: Path, text: str, errors: str = "strict") -> None:
    """Replace a text file in one step.

    Args:
        path: Of the file; its folder is there.
        text: All of it.
        errors: What becomes of what UTF-8 cannot hold, as for `str.encode`.

    Raises:
        OSError: It cannot be written; the old one is as it was.
    """
    with written_aside(path) as file:
        write_all(file, memoryview(text.encode(errors=errors)))


@contextmanager
def text_aside(path: Path, *, newline: str | None = None, errors: str = "strict") -> Generator[IO[str], None, None]:
    """As `written_aside`, for text that is written bit by bit."""
    with written_aside(path) as file:
        text = io.TextIOWrapper(io.BufferedWriter(cast(io.RawIOBase, file)), "utf-8", errors, newline)
        yield text
        text.flush()
        text.detach().detach()  # closing it would close the file, which is synced first


def write_all(file: IO[bytes], data: memoryview) -> None:
    """Write every byte to an unbuffered file, which may take them in pieces."""
    while data:
        data = data[file.write(data) :]


def _require_file(path: Path) -> None:
    """Let a file or nothing pass: a rename would put a file in the place of anything else."""
    with contextlib.suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))


@contextmanager
def _replacing(path: Path) -> Generator[IO[bytes], None, None]:
    remove_stale(path)
    pid = os.getpid()
    aside = path.with_name(f".{path.name}.{pid}.{_native.process_start_time(pid)}.{threading.get_native_id()}{_SUFFIX}")
    try:
        with open(aside, "wb", buffering=0) as file:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _let_in_whom(path, file.fileno())
            yield file
            os.fsync(file.fileno())
            os.replace(aside, path)
        sync_folder(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def _let_in_whom(path: Path, fd: int) -> None:
    """Let a new file be read and written by whom the old one was, if there is an old one."""
    with contextlib.suppress(OSError):  # none; or a file system without permissions
        old = path.stat()
        with contextlib.suppress(PermissionError):
            os.fchown(fd, old.st_uid, old.st_gid)
        os.fchmod(fd, stat.S_IMODE(old.st_mode))


def sync_folder(path: Path) -> None:
    """Have the disk know which names there are in a folder; a rename is otherwise only remembered."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a file system that cannot
            os.fsync(folder)
    finally:
        os.close(folder)


def remove_stale(path: Path) -> None:
    """Remove the files aside of `path` whose processes are dead; what cannot be removed stays."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d+)\.(\d+)\.\d+\.tmp")
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            match = pattern.fullmatch(entry.name)
            if match and not _is_alive(int(match[1]), int(match[2])):
                with contextlib.suppress(OSError):
                    _remove_unlocked(entry.path)


def _is_alive(pid: int, start_time: int) -> bool:
    try:
        return _native.process_is_alive(pid, start_time)
    except (OverflowError, TypeError):  # digits that are no process
        return True


def _remove_unlocked(path: str) -> None:
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: a live process of another container has it
        os.unlink(path)
