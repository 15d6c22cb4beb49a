"""This process's part in a session: its files in the session's folder, and those of its forked children.

enter -> describe, as often as more is known -> leave
"""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.core._native import process_start_time
from drivetrain.core.errors import InvalidInput
from drivetrain.scope import _native
from drivetrain.scope.format import BOOT
from drivetrain.scope.notes import leave_note
from drivetrain.scope.sites import table

_FORKED = (
    "GPU work of processes that were forked after their parent had begun to use CUDA was not recorded, if there was "
    "any: CUDA does not work in such processes."
)


class _Current:
    """What a forked child has to know of its parent's recording."""

    folder: Path | None = None
    """Where this process records, or a thread of it is about to."""
    claiming = threading.Lock()
    pid = 0
    start = 0
    forks = 0
    """The process that forks; its child may have another parent by the time it asks, if that has ended."""
    started = False


_current = _Current()


def enter(path: Path, **more: Any) -> Path:
    """Note in a session's folder who this process is, and what else is known of it; the folder, resolved.

    Raises:
        InvalidInput: This process records already.
    """
    folder = path.resolve()
    is_claimed = False
    try:
        with _current.claiming:  # of threads that begin at once, one does
            require_silence()
            is_claimed = True
            _current.folder = folder
        _current.start = _free_start(folder)
        describe(folder, **more)
        table.write_to(_own(folder, "sites"))
    except BaseException:  # Ctrl-C, too, anywhere from the claim on
        if is_claimed:
            _current.folder = None
        raise
    return folder


def require_silence() -> None:
    """Refuse a second recording beside one that runs.

    Raises:
        InvalidInput: This process records already.
    """
    if _native.recording() or _current.folder is not None:
        raise InvalidInput(
            f"session: this process records already, into {_current.folder}; one session at a time: end that one "
            "first, or run the program without `drivetrain profile`, if that has begun it"
        )


def require_main_interpreter() -> None:
    """Refuse an interpreter beside the one that records: native code is the process's, all of this the interpreter's.

    Those with a lock of their own cannot load native code, and are told of it by Python, which calls them the same.

    Raises:
        InvalidInput: Another interpreter of this process records.
    """
    if _native.recording() and _current.folder is None:
        raise InvalidInput("session: expected the process's main interpreter, and subinterpreters are not told apart")


def leave(path: Path) -> bool:
    """Stop recording; False in a forked child of the process that joined."""
    try:
        _native.stop()
        table.write_to(None)
    finally:  # Ctrl-C in between, too
        _current.folder = None
    is_own = _current.pid == os.getpid()
    return is_own and (path / "session.json").exists()


def recording_into() -> Path | None:
    """The folder into which this process records."""
    return _current.folder if _native.recording() else None


def goes_by() -> int:
    """What tells this process from others of its pid, in the folder that it has entered."""
    return _current.start


def describe(folder: Path, **more: Any) -> None:
    """Write who this process is, and what else is known of it."""
    if not _current.started:
        os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
        _current.started = True
    _current.pid = os.getpid()
    about = {
        "pid": os.getpid(),
        "start": _current.start,
        "parent": os.getppid(),
        "argv": sys.orig_argv,
        **more,
    }
    write_json(_own(folder, "json"), about)


def _before_fork() -> None:
    _current.forks = os.getpid()


def _after_fork() -> None:
    _current.claiming = threading.Lock()  # another thread may have had it
    folder = _current.folder
    if folder is None or not _native.recording():
        _current.folder = None
        table.write_to(None)  # a thread of the parent may have been about to begin, or to end
        return
    pid = _current.pid
    _current.start = process_start_time(os.getpid())
    with contextlib.suppress(OSError):  # a full disk: it is recorded all the same, as a process without arguments
        describe(folder, parent=_current.forks)
    _current.pid = pid  # the session stays the parent's
    table.write_to(_own(folder, "sites"))
    if _native.gpu_is_lost():
        leave_note(folder, "gpu-forked", _FORKED)
    _native.lane(0)


def _free_start(folder: Path) -> int:
    """When this process began. One that became another program since (os.exec) still has both pid and begin, and may
    not write where it has written: it counts on from there.
    """
    start = process_start_time(os.getpid())
    while (folder / f"{os.getpid()}-{start}.json").exists():
        start += 1
    return start


def _own(folder: Path, suffix: str) -> Path:
    return folder / f"{os.getpid()}-{_current.start}.{suffix}"


def boot_id() -> str:
    """Of the machine that this process runs on, as `format.BOOT` has it; empty where the kernel does not say."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def is_here(session: Mapping[str, Any]) -> bool:
    """Whether a session, by what it says of itself, has the clock of this machine, as far as both are known."""
    own, here = session.get(BOOT), boot_id()
    return not own or not here or own == here


def write_json(file: Path, data: dict[str, Any]) -> None:
    """Write a file of a session, whole or not at all.

    Raises:
        OSError: `file`, which the error names, cannot be written.
    """
    aside = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        aside.write_text(json.dumps(data, indent=1) + "\n")
        aside.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        error.filename = str(file)  # a write names none
        if error.filename2 is not None:  # of the rename; set to None it would be printed
            del error.filename2
        raise
