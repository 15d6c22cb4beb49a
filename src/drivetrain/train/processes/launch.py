"""Starting child processes, and being one.

`python -m drivetrain.train.processes.launch` is the run's fork server, which imports what all children need, and then
each child that is forked from it, told what to do by a pickle on its standard input.
It never imports the caller's `__main__`, so it starts from scripts, notebooks and threads alike.
A child dies with its supervisor (PR_SET_PDEATHSIG), ignores Ctrl-C (the supervisor drains it), and writes what it
prints, and its traceback, to RUN/logs/ROLE-INDEX.log. The learner, which is to save, and the server, with which all
would end, ignore SIGTERM and SIGHUP, too: schedulers send them to all processes of a job.
"""

import contextlib
import importlib
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from drivetrain.core.errors import DrivetrainError, RunError
from drivetrain.core.fork_server import ForkServer, Service, serve
from drivetrain.core.garbage import uncollected
from drivetrain.core.interrupts import holding_back
from drivetrain.core.processes import end, end_group, go_by, leave, told
from drivetrain.core.threads import one_thread_environment, prepare_computation
from drivetrain.train.environments.faults import EnvironmentFault, what
from drivetrain.train.learner.devices import environment_of
from drivetrain.train.processes.reports import Inbox, Reports
from drivetrain.train.processes.topology import Assignment, Role
from drivetrain.train.telemetry.recording import STARTING, record_as

_OF_A_JOB = (signal.SIGTERM, signal.SIGHUP)
"""What schedulers send to all processes of a job."""
_MODULE = "drivetrain.train.processes.launch"
_ROLES = "drivetrain.train.processes.roles"
_WITHOUT_FRAMEWORK = [f"{_ROLES}.actor", f"{_ROLES}.evaluator"]
_LOG_TAIL_NBYTES = 4_000
_WAITS_FOR_FUSE = b"request_wait_answer"  # where in the kernel, which takes it for any other wait
_GONE_S = 5.0  # for a process that was killed to be gone
_THREADS_S = 5.0  # for those of environments to end when all is done


class Child:
    """A running child process.

    Args:
        server: What it is forked from.
        assignment: What it is told.
        lock_fd: The run's lock, held by the child too, if it writes what a later run will read.
    """

    def __init__(self, server: ForkServer, assignment: Assignment, lock_fd: int | None = None) -> None:
        self.role: Role = assignment.role
        self.index = assignment.index
        self.inbox = Inbox()
        """Where its reports arrive."""
        self.reason = ""
        """What it has reported of its end: the exception that it ends with."""
        self._killed_because = ""
        self._is_kept = False  # by the kernel, though it was killed
        self._ticks = 0
        self.log = log_path(assignment)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        try:
            with _opened(self.log) as log:
                self.process = server.begin(
                    assignment,
                    environment=environment_of(assignment.config, os.environ, learns=assignment.role == "learner"),
                    stdout=log,
                    stderr=log,
                    files=[self.inbox.writing_fd, *([] if lock_fd is None else [lock_fd])],
                )
        except BaseException:
            self.inbox.close()
            raise
        finally:
            self.inbox.close_writing()

    @property
    def name(self) -> str:
        """As in "actor 3"."""
        return f"actor {self.index}" if self.role == "actor" else f"the {self.role}"

    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return -signal.SIGKILL if self._is_kept else self.process.poll()

    def is_at_work(self) -> bool:
        """Whether it has computed since this was asked before, or waits for a disk."""
        before = self._ticks
        self._ticks, waits_for_disk = work_of(self.process.pid)
        return waits_for_disk or self._ticks > before

    def describe_end(self) -> str:
        """How it ended: why we killed it, or a signal or an exit code, and what it said of it."""
        if self._killed_because:
            kept = f"; process {self.process.pid} is there until the kernel has what it waits for, as of a disk"
            return f"was ended: {self._killed_because}{kept if self._is_kept else ''}"
        code, why = self.process.wait(), self.reason
        if not why and code >= 0:
            why = "".join(self.last_words().splitlines()[-1:]) if code else "it left in the midst of its work"
        return self.process.how_ended() + (f": {why}" if why else "")

    def last_words(self) -> str:
        """What this process wrote to its log, at most the last 4 KB: the traceback if it raised.

        Nothing where somebody has removed that.
        """
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, end - _LOG_TAIL_NBYTES))
            return file.read().decode(errors="replace").rstrip()
        return ""

    def kill(self, reason: str = "", patience_s: float = _GONE_S) -> None:
        """End it at once, with what it has started, and wait until it is gone, or for so many seconds: what the kernel
        keeps any longer counts as ended, as it runs no code any more.
        """
        self._killed_because = reason
        self._is_kept = not end(self.process, patience_s)

    def end_others(self) -> None:
        """End the processes that its environments have started, and could not end: those of its process group."""
        end_group(self.process)


def kill_all(children: Sequence[Child]) -> None:
    """End them at once; those that the kernel keeps are waited for together."""
    until_s = time.monotonic() + _GONE_S
    for child in children:
        child.end_others()
    for child in children:
        child.kill(patience_s=max(0.0, until_s - time.monotonic()))


def work_of(pid: int) -> tuple[int, bool]:
    """CPU time of a process's living threads in the kernel's ticks, and whether one waits for a disk."""
    ticks, waits_for_disk = 0, False
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # a thread that ended in between
            state, *numbers = stat.read_bytes().rpartition(b")")[2].split()  # before it a name, which need be no text
            ticks += int(numbers[10]) + int(numbers[11])  # utime, stime
            waits_for_disk |= state == b"D" or stat.with_name("wchan").read_bytes() == _WAITS_FOR_FUSE
    return ticks, waits_for_disk


def log_path(assignment: Assignment) -> Path:
    """The file that collects what a child prints."""
    return assignment.run_dir / "logs" / f"{assignment.role}-{assignment.index}.log"


def _opened(log: Path) -> IO[bytes]:
    """A log to be written on; its folder is made again if somebody has removed it.

    Raises:
        RunError: It cannot be.
    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("ab")
    except OSError as error:
        raise RunError(f"{log}: cannot be written: {error.strerror}") from error


class _Log(io.FileIO):
    """What takes what a process prints; where there is no room for that it is lost, and the process goes on."""

    def write(self, data: Any, /) -> int:
        """As that of FileIO, never failing."""
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


def print_without_fail() -> None:
    """Let what is printed from here on be lost where it cannot be written: a full disk is no mistake of who prints."""
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            io.BufferedWriter(_Log(fd, "w", closefd=False)), "utf-8", "backslashreplace", line_buffering=True
        )
        for fd in (1, 2)
    )


def fork_server(run_dir: Path) -> ForkServer:
    """What the processes of a run are forked from; what importing prints is in its logs."""
    with _opened(run_dir / "logs" / "fork-server.log") as log, holding_back(*_OF_A_JOB):  # until it ignores them
        return ForkServer(_MODULE, environment=one_thread_environment(os.environ), log=log)


def main() -> None:
    """Be the fork server, and each child: read the assignment and do it."""
    print_without_fail()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ends = {signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.getsignal(signal.SIGHUP)}
    ignored = dict.fromkeys(ends, signal.SIG_IGN)
    files = list(map(int, sys.argv[1:]))
    task = told()
    if isinstance(task, Service):
        go_by("fork server")
        _handle(ignored)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _OF_A_JOB)
        with uncollected(for_good=True):
            for role in _WITHOUT_FRAMEWORK:
                importlib.import_module(role)
        files = serve(task, _MODULE)
        task = told()
    _handle(ignored if task.role == "learner" else ends)
    _work(task, Reports(fd=files[0]))


def _handle(signals: Mapping[signal.Signals, Any]) -> None:
    """Have signals handled so, here and in what is begun from here."""
    for signum, handler in signals.items():
        signal.signal(signum, handler)


def _work(assignment: Assignment, reports: Reports) -> None:
    go_by(assignment.name)
    os.set_inheritable(reports.fd, False)  # processes of an environment's own
    prepare_computation()
    record_as(assignment.name, assignment.recording)
    try:
        with STARTING, uncollected(for_good=True):
            role = importlib.import_module(f"{_ROLES}.{assignment.role}")
        role.run(assignment, reports)
    except DrivetrainError as error:  # one sentence for the user; anything else is shown with its traceback
        if isinstance(error, EnvironmentFault) and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        sentence = " ".join(str(error).split())
        _report_end(reports, sentence)
        sys.exit(sentence)
    except Exception as error:
        _report_end(reports, what(error))
        raise
    leave(patience_s=None if assignment.role == "learner" else _THREADS_S)


def _report_end(reports: Reports, reason: str) -> None:
    """Say why this process ends; who reads its log would have to tell that from all else that is written there."""
    with contextlib.suppress(OSError):  # the supervisor is gone
        reports.send({"reason": reason})


if __name__ == "__main__":
    main()
