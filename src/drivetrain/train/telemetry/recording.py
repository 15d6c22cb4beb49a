"""What the processes of a run are at, recorded as sums by `scope`: the same few bytes after a minute and after a week.

    RUN/time/0, 1, ...    one session per start or resume -> time_report.py

A session is left as it is when its run is killed, and counts all the same when the run is resumed.
"""

import atexit
import contextlib
import os
import sys
from collections.abc import Generator
from pathlib import Path

from drivetrain.scope import phase
from drivetrain.scope.process import leave, recording_into
from drivetrain.scope.program import FOLDER_VARIABLE
from drivetrain.scope.session import end
from drivetrain.scope.sites import Site, table
from drivetrain.scope.spans import Operation
from drivetrain.scope.summing import create, join
from drivetrain.train.config import TrainConfig

FOLDER = "time"
SUPERVISOR, SEQUENTIAL = "supervisor", "run"
"""What the caller's process is called, with others and without."""
_LIMIT_NBYTES = 2**26  # 8 KiB per process: thousands that died and were started again


def _site(name: str, operation: str, time_class: str = "python") -> Operation:
    return Operation(table.number(Site(name, operation, time_class)))


STARTING = _site("starting", "starting")
SIMULATION = _site("environments", "simulation")
INFERENCE = _site("policy", "inference", "backend")
REPLAY = _site("replay", "replay", "backend")
BACKPROPAGATION = _site("updates", "backpropagation", "backend")
WEIGHTS = _site("weights", "weights", "backend")
CHECKPOINT = _site("checkpoint", "checkpoint")
METRICS = _site("metrics", "metrics")
LEDGER = _site("ledger", "ledger")
WAITING = _site("waiting", "", "wait")
EVALUATION = phase("evaluation")


@contextlib.contextmanager
def recorded(config: TrainConfig, run_dir: Path) -> Generator[Path | None]:
    """One session of a run, in this process: where its other processes join.

    Gives None where nothing is recorded: because the run is not to be, because somebody records this process already
    (`drivetrain profile`, a session of the caller's), or because the disk refuses. A run never fails of it.
    """
    folder = _begun(config, run_dir) if config.run.time_report else None
    try:
        yield folder
    finally:
        if folder is not None:
            with never_failing():
                leave(folder)
                end(folder)


def record_as(name: str, folder: Path | None) -> None:
    """Let this process, which is one of a run's, record under a name."""
    if folder is not None and recording_into() is None:
        with never_failing():
            join(folder, name=name)
            atexit.register(leave, folder)  # it ends without what an interpreter's end would do: it would seem killed


def sessions(run_dir: Path) -> list[Path]:
    """The folders of the sessions of a run, oldest first."""
    return [folder for folder in _numbered(run_dir) if (folder / "session.json").exists()]


def _numbered(run_dir: Path) -> list[Path]:
    """What is named as a session is; anything else there, as a copy of one, is somebody's own."""
    found = [entry for entry in (run_dir / FOLDER).glob("*") if entry.name.isascii() and entry.name.isdigit()]
    return sorted(found, key=lambda folder: int(folder.name))


def _begun(config: TrainConfig, run_dir: Path) -> Path | None:
    if recording_into() is not None or os.environ.get(FOLDER_VARIABLE):
        return None
    with never_failing():
        before = _numbered(run_dir)
        folder = run_dir / FOLDER / str(int(before[-1].name) + 1 if before else 0)
        create(folder)
        join(folder, name=SUPERVISOR if config.num_actors else SEQUENTIAL, limit_nbytes=_LIMIT_NBYTES)
        return folder
    return None


@contextlib.contextmanager
def never_failing() -> Generator[None]:
    """Say what went wrong, and go on: a training run must not fail because its time report did."""
    try:
        yield
    except BrokenPipeError:  # the reader of a table went away, of which nothing is wrong: for the command line to say
        raise
    except Exception as error:
        sys.stderr.write(f"where the time goes is not recorded: {type(error).__name__}: {error}\n")
