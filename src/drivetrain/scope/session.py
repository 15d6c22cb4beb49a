"""Sessions: a folder into which this process, its threads and its forked children record.

FOLDER/session.json              when it began and ended, on the monotonic clock
       shared                    bytes taken by all, events dropped
       PID-START.json            a process: arguments, parent
       PID-START.sites           its table of sites
       PID-START.THREAD.N.events its threads' events
       PID-START.N.gpu, .gpu-names, gpu.readings: see trace/gpu_segments.py
       *.not-captured            sentences about what is missing
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from drivetrain.core._native import process_start_time
from drivetrain.core.errors import InvalidInput
from drivetrain.scope import _native
from drivetrain.scope.calibration import prior
from drivetrain.scope.calibration.yardstick import Yardstick
from drivetrain.scope.hooks import asyncio
from drivetrain.scope.notes import leave_note
from drivetrain.scope.sites import CALIBRATION, UNRECORDED, table

WALL_CLOCK = "wall_clock_minus_monotonic_ns"
"""In session.json: what others' times of the wall clock are ahead of ours."""
LIMIT_NBYTES = 2**30
FORMAT = 2
CALIBRATE_EVERY = 10
_FORKED = (
    "GPU work of processes that were forked after their parent had begun to use CUDA was not recorded, if there was "
    "any: CUDA does not work in such processes."
)


def session(
    path: str | os.PathLike[str], *, limit_nbytes: int = LIMIT_NBYTES, calibrate_every: int = CALIBRATE_EVERY
) -> "Session":
    """A context in which everything is recorded into a new folder.

    Threads and forked children are followed; other processes are by `drivetrain profile`. What is recorded survives
    the death of its process. Read it with `load(path)` or `drivetrain report`.

    Args:
        path: A folder that does not exist, or is empty.
        limit_nbytes: Disk space for all processes together. What comes after is dropped, and the report says so.
        calibrate_every: Threads that take steps (`mark_step`, Gymnasium's environments) are left unrecorded in one of
            so many blocks of steps, chosen at random, to learn what recording costs them; 0: never.

    Raises:
        InvalidInput: The folder is in use, or this process records already, or calibrate_every is 1 or below 0.
    """
    return Session(Path(path), limit_nbytes, calibrate_every)


class Session:
    """See `session`; a context manager, to be entered once."""

    def __init__(self, path: Path, limit_nbytes: int, calibrate_every: int) -> None:
        self._path = path
        self._limit_nbytes = limit_nbytes
        self._calibrate_every = calibrate_every

    def __enter__(self) -> Self:
        create(self._path, sys.argv, self._calibrate_every)
        if "asyncio.events" in sys.modules:  # its tasks take turns in a thread
            asyncio.install(sys.modules["asyncio.events"])
        join(self._path, self._limit_nbytes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if leave(self._path):
            end(self._path)


def create(path: Path, argv: list[str], calibrate_every: int = CALIBRATE_EVERY) -> None:
    """Make the folder of a session that begins now.

    Raises:
        InvalidInput: The folder exists and is not empty; or see `check_calibrate_every`.
    """
    check_calibrate_every(calibrate_every)
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise InvalidInput(f"session: expected a new or empty folder, and {path} holds files; choose another")
    about = {
        "format": FORMAT,
        "argv": argv,
        "begin_ns": time.monotonic_ns(),
        WALL_CLOCK: time.clock_gettime_ns(time.CLOCK_REALTIME) - time.monotonic_ns(),
        "calibrate_every": calibrate_every,
        "machine": prior.machine(),
        "prior": prior.recall(),
    }
    _write(path / "session.json", about)


def check_calibrate_every(number: int) -> None:
    """Refuse what leaves nothing recorded.

    Raises:
        InvalidInput: It is 1, or below 0.
    """
    if number < 0 or number == 1:
        raise InvalidInput(
            f"calibrate_every: expected 0 (never), or 2 or more blocks, got {number}; 10 leaves a tenth unrecorded"
        )


def end(path: Path, **more: Any) -> None:
    """Note that the session is over, and what else is known of its end."""
    file = path / "session.json"
    _write(file, {**json.loads(file.read_text()), "end_ns": time.monotonic_ns(), **more})


def join(path: Path, limit_nbytes: int = LIMIT_NBYTES) -> None:
    """Let this process record into the folder of a session.

    Raises:
        InvalidInput: It records already.
    """
    calibrate_every = json.loads((path / "session.json").read_text())["calibrate_every"]
    table.number(CALIBRATION)
    if calibrate_every:
        table.number(UNRECORDED)
    folder = enter(path)
    yardstick = Yardstick()
    _native.start(str(folder), limit_nbytes, calibrate_every, goes_by())
    _native.lane(0)  # this thread's time line begins here
    _describe(folder, alone_ns=yardstick.measure())


def leave(path: Path) -> bool:
    """Stop recording; False in a forked child of the process that joined."""
    _native.stop()
    table.write_to(None)
    is_own = _current.pid == os.getpid()
    _current.folder = None
    return is_own and (path / "session.json").exists()


def enter(path: Path, **more: Any) -> Path:
    """Note in a session's folder who this process is, and what else is known of it; the folder, resolved.

    Raises:
        InvalidInput: This process records already.
    """
    if _native.recording():
        raise InvalidInput("session: this process records already; one session at a time")
    folder = path.resolve()
    _current.folder = folder
    _current.start = _free_start(folder)
    _describe(folder, **more)
    table.write_to(_own(folder, "sites"))
    return folder


def recording_into() -> Path | None:
    """The folder into which this process records."""
    return _current.folder if _native.recording() else None


def goes_by() -> int:
    """What tells this process from others of its pid, in the folder that it has entered."""
    return _current.start


class _Current:
    """What a forked child has to know of its parent's recording."""

    folder: Path | None = None
    pid = 0
    start = 0
    started = False


_current = _Current()


def _describe(folder: Path, **more: Any) -> None:
    """Write who this process is, and what else is known of it."""
    if not _current.started:
        os.register_at_fork(after_in_child=_after_fork)
        _current.started = True
    _current.pid = os.getpid()
    parent = os.getppid()
    about = {
        "pid": os.getpid(),
        "start": _current.start,
        "parent": parent,
        "argv": sys.orig_argv,
        **more,
    }
    _write(_own(folder, "json"), about)


def _after_fork() -> None:
    folder = _current.folder
    if folder is None or not _native.recording():
        return
    pid = _current.pid
    _current.start = process_start_time(os.getpid())
    with contextlib.suppress(OSError):  # a full disk: it is recorded all the same, as a process without arguments
        _describe(folder)
    _current.pid = pid  # the session stays the parent's
    table.after_fork(_own(folder, "sites"))
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


def _write(file: Path, data: dict[str, Any]) -> None:
    aside = file.with_name(f"{file.name}.{os.getpid()}")
    aside.write_text(json.dumps(data, indent=1) + "\n")
    aside.replace(file)
