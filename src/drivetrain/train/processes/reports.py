"""Reports from a child to the supervisor: JSON lines through a pipe of its own.

child --offer (drops when full) | send (waits)--> pipe --Inbox.read--> supervisor
"""

import contextlib
import json
import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Reports:
    """The child's end."""

    fd: int
    """Descriptor of the pipe's writing end; non-blocking."""

    def offer(self, report: dict[str, Any]) -> bool:
        """Write a report of at most PIPE_BUF (4096) bytes, whole or not at all; never waits.

        Returns:
            False where the supervisor is slow or gone and the report is lost.
        """
        try:
            os.write(self.fd, _line(report))
        except OSError:
            return False
        return True

    def send(self, report: dict[str, Any]) -> None:
        """Write a report of any size, waiting for room: for learner and evaluator, which may; actors use `offer`.

        Raises:
            OSError: The supervisor is gone.
        """
        os.set_blocking(self.fd, True)
        text = _line(report)
        while text:
            text = text[os.write(self.fd, text) :]
        os.set_blocking(self.fd, False)


class Inbox:
    """The supervisor's end of one child's pipe."""

    def __init__(self) -> None:
        self.fd, self.writing_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self.writing_fd, False)
        self._rest = b""

    def close_writing(self) -> None:
        """Leave the writing end to the child alone, so that its death ends the pipe."""
        os.close(self.writing_fd)

    def read(self) -> tuple[list[dict[str, Any]], bool]:
        """All reports that have come, and whether more may come."""
        is_open = True
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.fd, 1 << 16):
                self._rest += data
            is_open = False
        *lines, self._rest = self._rest.split(b"\n")
        return [json.loads(line) for line in lines], is_open

    def close(self) -> None:
        """Stop reading."""
        os.close(self.fd)


def _line(report: dict[str, Any]) -> bytes:
    return json.dumps(report, separators=(",", ":")).encode() + b"\n"
