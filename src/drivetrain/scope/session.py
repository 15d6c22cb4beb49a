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
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from drivetrain.core.errors import InvalidInput
from drivetrain.core.paths import given_path
from drivetrain.scope import _native
from drivetrain.scope.calibration import prior
from drivetrain.scope.calibration.yardstick import Yardstick
from drivetrain.scope.format import BOOT, FORMAT, WALL_CLOCK
from drivetrain.scope.hooks import asyncio
from drivetrain.scope.process import boot_id, describe, enter, goes_by, leave, require_silence, write_json
from drivetrain.scope.sites import CALIBRATION, UNRECORDED, table

LIMIT_NBYTES = 2**30
CALIBRATE_EVERY = 10
MOST_NBYTES, MOST_BLOCKS = 2**62, 2**20
"""What the recorder can count to, and more than any run has."""


def session(
    path: str | os.PathLike[str], *, limit_nbytes: int = LIMIT_NBYTES, calibrate_every: int = CALIBRATE_EVERY
) -> "Session":
    """A context in which what the program says of itself (operations, phases, steps) is recorded into a new folder.

    Threads and forked children are followed; other processes are by `drivetrain profile`, which also finds operations
    by itself. What is recorded survives the death of its process. Read it with `load(path)` or `drivetrain report`.

    Args:
        path: A folder that does not exist, or is empty.
        limit_nbytes: Disk space for all processes together. What comes after is dropped, and the report says so.
        calibrate_every: Threads that take steps (`mark_step`) are left unrecorded in one of so many blocks of steps,
            chosen at random, to learn what recording costs them; 0: never.

    Raises:
        InvalidInput: It is no path, the folder is in use, this process records already, or a number is none that can be
            meant.
        OSError: The folder cannot be made or written; nothing is recorded. What cannot be written later, as on a disk
            that becomes full, stops nobody.
    """
    return Session(given_path("session", path, "the path of a new folder"), limit_nbytes, calibrate_every)


class Session:
    """See `session`; a context manager, to be entered once."""

    def __init__(self, path: Path, limit_nbytes: int, calibrate_every: int) -> None:
        self._path = path
        self._limit_nbytes = limit_nbytes
        self._calibrate_every = calibrate_every

    def __enter__(self) -> Self:
        from drivetrain.scope.hooks import multiprocessing_end  # only where something is recorded

        require_silence()
        if not _is_whole(self._limit_nbytes) or not 0 <= self._limit_nbytes <= MOST_NBYTES:
            raise InvalidInput(
                f"limit_nbytes: expected a whole number of bytes up to 2**62, got {self._limit_nbytes!r}; "
                f"{LIMIT_NBYTES} is a gibibyte"
            )
        create(self._path, sys.argv, self._calibrate_every)
        self._path = self._path.resolve()  # the program may change its folder
        if "asyncio.events" in sys.modules:  # its tasks take turns in a thread
            asyncio.install(sys.modules["asyncio.events"])
            asyncio.begin_in_task()
        multiprocessing_end.install_in_forked()
        join(self._path, self._limit_nbytes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if leave(self._path):
            with contextlib.suppress(OSError):  # of a full disk, say: reports say that it was not ended
                end(self._path)


def create(path: Path, argv: list[str], calibrate_every: int = CALIBRATE_EVERY) -> None:
    """Make the folder of a session that begins now.

    Raises:
        InvalidInput: The folder exists and is not empty, or is none; or see `check_calibrate_every`.
        OSError: It cannot be made or written, as the error says.
    """
    check_calibrate_every(calibrate_every)
    more = {
        WALL_CLOCK: time.clock_gettime_ns(time.CLOCK_REALTIME) - time.monotonic_ns(),
        "calibrate_every": int(calibrate_every),
        "machine": prior.machine(),
        "prior": prior.recall(),
    }
    begin(path, argv, more)


def begin(path: Path, argv: list[str], more: Mapping[str, Any]) -> None:
    """Make the folder of a session of either kind that begins now, with what else is known of it.

    Raises:
        InvalidInput: The folder exists and is not empty, or is none.
        OSError: It cannot be made or written, as the error says.
    """
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"session: expected a new or empty folder, and {path} is a file; choose another name")
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise InvalidInput(f"session: expected a new or empty folder, and {path} holds files; choose another")
    about = {
        "format": FORMAT,
        "argv": list(map(str, argv)),  # programs put into sys.argv what they like
        "begin_ns": time.monotonic_ns(),
        BOOT: boot_id(),
        **more,
    }
    write_json(path / "session.json", about)


def check_calibrate_every(number: int) -> None:
    """Refuse what leaves nothing recorded, and what is no number of blocks.

    Raises:
        InvalidInput: It is 1, below 0, above `MOST_BLOCKS`, or no whole number.
    """
    if not _is_whole(number) or number < 0 or number == 1 or number > MOST_BLOCKS:
        raise InvalidInput(
            f"calibrate_every: expected 0 (never), or 2 to {MOST_BLOCKS} blocks, got {number!r}; 10 leaves a tenth "
            "unrecorded"
        )


def _is_whole(number: object) -> bool:
    return hasattr(number, "__index__")  # NumPy's, too


def end(path: Path, **more: Any) -> None:
    """Note that the session is over, by now or by an earlier `end_ns`, and what else is known of its end."""
    write_json(path / "session.json", {**read_about(path), "end_ns": time.monotonic_ns(), **more})


def read_about(path: Path) -> dict[str, Any]:
    """What a session says of itself; `end_ns` once it is over."""
    return json.loads((path / "session.json").read_text())


def join(path: Path, limit_nbytes: int = LIMIT_NBYTES) -> None:
    """Let this process record into the folder of a session.

    Raises:
        InvalidInput: It records already.
        OSError: The folder cannot be written; nothing is recorded.
    """
    calibrate_every = read_about(path)["calibrate_every"]
    table.number(CALIBRATION)
    if calibrate_every:
        table.number(UNRECORDED)
    folder = enter(path)
    try:
        yardstick = Yardstick()
        _native.start(os.fsencode(folder), limit_nbytes, calibrate_every, goes_by())
        _native.lane(0)  # this thread's time line begins here
        alone_ns = yardstick.measure()
        with contextlib.suppress(OSError):  # a disk that is full by now: it records, and what a span costs is not known
            describe(folder, alone_ns=alone_ns)
    except BaseException:  # Ctrl-C, too: nobody would end what is begun here
        leave(path)
        raise
