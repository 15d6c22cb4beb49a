"""A contender's process as the bench sees it: started once, asked many times, ended for sure.

Worker.ask(request) -> one line of JSON -> peers/entry.py -> one line of JSON -> answer
"""

import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from drivetrain.bench.process import Rival, kill, last_lines, last_words, launch
from drivetrain.core.errors import RunError
from drivetrain.core.readable import readable

LOG_LINES, LINE_LENGTH = 20, 200
"""That a failure brings with it of what the process wrote."""


@dataclass
class Worker:
    """One contender's process, idle unless it is asked."""

    rival: Rival
    process: subprocess.Popen[bytes]
    connection: socket.socket
    folder: tempfile.TemporaryDirectory[str]
    received: bytearray = field(default_factory=bytearray)

    @classmethod
    def start(cls, rival: Rival, *, threads: int | None = 1) -> Self:
        """Start the rival's module in an empty folder, with a socket to talk over."""
        folder = tempfile.TemporaryDirectory(prefix="drivetrain-bench-")
        ours, theirs = socket.socketpair()
        with theirs:
            process = launch(
                rival,
                [str(theirs.fileno())],
                folder=Path(folder.name),
                threads=threads,
                pass_fds=(theirs.fileno(),),
            )
        return cls(rival, process, ours, folder)

    def send(self, request: Mapping[str, Any]) -> None:
        """Hand over a request; `receive` gets its answer.

        Raises:
            RunError: The process is gone.
        """
        try:
            self.connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError:
            raise self.failure() from None

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """The next answer.

        Raises:
            RunError: The process ended or failed, or gave no answer in time (it is then killed).
        """
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self.received:
            if not readable([self.connection.fileno()], max(0.0, deadline - time.monotonic())):
                error = self.error(f"{self.rival.name} took longer than {timeout_s:.0f} s")
                self.end()
                raise error
            try:
                chunk = self.connection.recv(65_536)
            except ConnectionResetError:  # it ended before it read the request
                chunk = b""
            if not chunk:
                raise self.failure()
            self.received += chunk
        line, _, rest = bytes(self.received).partition(b"\n")
        self.received = bytearray(rest)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise self.error(f"{self.rival.name}: {answer['error']}")
        return answer

    def ask(self, request: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            RunError: As `send` and `receive`.
        """
        self.send(request)
        return self.receive(timeout_s)

    def failure(self) -> RunError:
        """The error of a process that hung up, with its last line."""
        kill(self.process)
        return self.error(
            f"{self.rival.name} ended with code {self.process.returncode}: {last_words(Path(self.folder.name))}"
        )

    def error(self, message: str) -> RunError:
        """An error of this process, with the last lines of its log as a note: the log goes with the process."""
        error = RunError(message)
        for line in last_lines(Path(self.folder.name), most=LOG_LINES):
            error.add_note(line[:LINE_LENGTH])
        return error

    def end(self) -> None:
        """End the process with its children; a second time changes nothing."""
        self.connection.close()
        kill(self.process)
        self.folder.cleanup()


Start = Callable[[Rival], Worker]


@contextmanager
def started(contenders: Mapping[str, Rival], start: Start = Worker.start) -> Generator[dict[str, Worker], None, None]:
    """A process for every contender, under its name; all are ended with the block, whatever happens in it."""
    with ExitStack() as ending:
        workers: dict[str, Worker] = {}
        for name, rival in contenders.items():
            workers[name] = start(rival)
            ending.callback(workers[name].end)
        yield workers
