"""A process that imports what many processes need, and is forked for each of them.

    ForkServer.begin --what it is told, its files--> serve --fork--> goes on as the new process
    Forked           <------ pid, exit code -------

The imports are paid for once, and what they leave in memory is shared. A fork takes one thread along: where importing
has started others, the new process is a fresh interpreter instead.
"""

import contextlib
import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from drivetrain.core.errors import RunError
from drivetrain.core.processes import begin, die_with, end, how_ended, leave
from drivetrain.core.readable import readable

_NUMBER = struct.Struct("<q")  # what comes back through a pipe for each process: its pid (or minus an errno), its code
_REQUEST_NBYTES = 2**16
_MOST_FILES = 16
_LEAVING_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Service:
    """What a fork server is told, where its forks are told what they are to do."""

    fd: int
    """Its end of the socket on which requests come."""
    owner_pid: int
    """Whom it serves, and with whom it dies."""


class Forked:
    """A process of a fork server, for the server's owner; what it shares with `subprocess.Popen` has the same names.

    Args:
        pid: Its process id.
        status: Descriptor of the pipe through which its exit code comes; this object closes it.
        server: Who takes its exit code.
    """

    def __init__(self, pid: int, status: int, server: subprocess.Popen[bytes]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        """Its exit code; negative: the signal that ended it. None as long as that is not known."""
        self._status, self._server = status, server
        self._went_with_server = False

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        self._listen(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended.

        Raises:
            subprocess.TimeoutExpired: It still runs after `timeout` seconds.
        """
        self._listen(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self.returncode

    def how_ended(self) -> str:
        """What is to be said of its exit code, when it has ended."""
        if not self._went_with_server:
            return how_ended(self.wait())
        return f"ended with the process that begins the others, which {_how_ended(self._server)}"

    def kill(self) -> None:
        """Send it SIGKILL, if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._server.send_signal(signal.SIGCONT)  # stopped, it would take nobody's exit code

    def _listen(self, timeout_s: float | None) -> None:
        if self.returncode is None and readable([self._status], timeout_s):
            said = os.read(self._status, _NUMBER.size)
            self._went_with_server = not said
            self.returncode = _NUMBER.unpack(said)[0] if said else -signal.SIGKILL
            os.close(self._status)


class ForkServer:
    """A fork server, for its owner.

    Args:
        module: What runs as `python -m`: it is told a `Service` first, and in each new process what `begin` is given.
        environment: Variables beside ours.
        log: Where it prints.
    """

    def __init__(self, module: str, *, environment: Mapping[str, str], log: IO[Any]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            told, fds = Service(fd=theirs.fileno(), owner_pid=os.getpid()), [theirs.fileno()]
            self._process = begin(module, told, environment=environment, stdout=log, stderr=log, pass_fds=fds)
        self._log = log.name

    def begin(
        self,
        told: Any,
        *,
        environment: Mapping[str, str],
        stdout: IO[Any],
        stderr: IO[Any],
        files: Sequence[int] = (),
    ) -> Forked:
        """Begin a process, the first of a process group, which dies with the server; waits until that has imported.

        Args:
            told: What `processes.told` gives it.
            environment: Variables beside the server's.
            stdout: Where it prints.
            stderr: Where its errors go.
            files: What it has open besides, under numbers that `serve` tells it.

        Raises:
            RunError: The server is gone, or the system lets it begin no more processes.
        """
        words = pickle.dumps(told)
        self._process.send_signal(signal.SIGCONT)
        status, theirs = os.pipe()
        try:
            with os.fdopen(os.memfd_create("told"), "w+b") as stdin:
                stdin.write(words)
                stdin.seek(0)
                fds = [theirs, stdin.fileno(), stdout.fileno(), stderr.fileno(), *files]
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    socket.send_fds(self._socket, [json.dumps(dict(environment)).encode()], fds)
        finally:
            os.close(theirs)
        said = os.read(status, _NUMBER.size)
        pid = _NUMBER.unpack(said)[0] if said else 0
        if pid > 0:
            return Forked(pid, status, self._process)
        os.close(status)
        if said:
            raise RunError(f"the system lets no process begin: {os.strerror(-pid)}")
        raise RunError(f"the process that begins the others {_how_ended(self._process)} (log: {self._log})")

    def close(self) -> None:
        """End it; the kernel ends what it has begun with it."""
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # by itself, which is told whoever records it
            self._process.wait(_LEAVING_S)
        end(self._process)


def _how_ended(server: subprocess.Popen[bytes]) -> str:
    """What is to be said of a server's end; it never leaves with exit code 0 of its own accord."""
    code = server.wait()
    return how_ended(code) if code else "ended (nobody is told how where SIGCHLD is ignored)"


def serve(service: Service, module: str) -> list[int]:
    """Fork for each request; returns in the new processes alone, with the numbers of the files that they got.

    The exit codes of its children are its business, and theirs those of their own, whatever its owner makes of SIGCHLD.

    Args:
        service: What this process was told.
        module: What a new process runs as `python -m` where forking is not safe; the numbers are its arguments.
    """
    requests = socket.socket(fileno=service.fd)
    die_with(service.owner_pid)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an owner's that is ignored comes along
    pid = os.getpid()
    running: dict[int, tuple[int, int]] = {}  # descriptor of a process -> its pid, where its exit code is awaited
    while True:
        ready = readable([service.fd, *running])
        for pidfd in running.keys() & set(ready):
            _tell_end(pidfd, *running.pop(pidfd))
        if service.fd not in ready:
            continue
        environment, fds, _, _ = socket.recv_fds(requests, _REQUEST_NBYTES, _MOST_FILES)
        if not environment:  # the owner has closed its end
            leave()
        status, *files = fds
        has_threads = len(os.listdir("/proc/self/task")) > 1
        child = _fork(status)
        if child == 0:
            inherited = [requests.detach(), status, *running, *(pipe for _, pipe in running.values())]
            for fd in inherited:
                os.close(fd)
            die_with(pid)
            return _become(json.loads(environment), files, module, anew=has_threads)
        for fd in files:
            os.close(fd)
        if child > 0:
            running[os.pidfd_open(child)] = child, status


def _fork(status: int) -> int:
    """As os.fork, telling the owner the pid; -1 where the system refuses, which the owner is told instead."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        with warnings.catch_warnings(action="ignore"):  # of several threads: `_become` sees to that
            child = os.fork()
    except OSError as error:
        os.write(status, _NUMBER.pack(-(error.errno or 0)))
        os.close(status)
        return -1
    if child > 0:
        with contextlib.suppress(OSError):  # it has gone on to another program, or has ended
            os.setpgid(child, child)
        os.write(status, _NUMBER.pack(child))
    return child


def _tell_end(pidfd: int, pid: int, status: int) -> None:
    """Take the exit code of a process that has ended, and tell it."""
    _, how = os.waitpid(pid, 0)
    os.close(pidfd)
    with contextlib.suppress(BrokenPipeError):  # nobody wants to know
        os.write(status, _NUMBER.pack(os.waitstatus_to_exitcode(how)))
    os.close(status)


def _become(environment: Mapping[str, str], files: Sequence[int], module: str, *, anew: bool) -> list[int]:
    """In a new process: take up what it was given; `anew` as a fresh interpreter."""
    os.setpgid(0, 0)
    os.environ.update(environment)
    for number, fd in enumerate(files[:3]):
        os.dup2(fd, number)
        os.close(fd)
    rest = list(files[3:])
    if anew:
        for fd in rest:
            os.set_inheritable(fd, True)
        os.execv(sys.executable, [sys.executable, "-P", "-m", module, *map(str, rest)])
    np.random.seed()  # NumPy's common generator would go on from the same state in all forks
    return rest
