"""Sites: what a program can be in, as the recorder numbers it and as reports name it.

    site ("CartPoleEnv.step") -> operation ("simulation"), class of time ("simulator"), phase

A site sets what it names and inherits the rest from the site around it. Each process numbers its sites as it
meets them and writes the table beside its events: one JSON line per site, before the site is first entered.
"""

import json
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

OPERATIONS = ("simulation", "inference", "replay", "backpropagation", "optimizer", "other")
"""Operations that are found without annotations; `operation(name)` adds others."""

CLASSES = (
    "python",
    "simulator",
    "backend",
    "accelerator_api",
    "accelerator_sync",
    "gpu_kernel",
    "gpu_copy",
    "wait",
    "gc",
    "profiler",
    "unrecorded",
    "idle",
)
"""What a thread does at a time; a bit mask over these says what several do."""

NATIVE = frozenset({"simulator", "backend", "accelerator_api", "accelerator_sync"})
"""Classes that Python calls into."""

FORWARD = "forward"
"""The operation of a network's forward pass until analysis knows what it was for (scope/rules.py)."""


@dataclass(frozen=True)
class Site:
    """A place in the program; empty strings inherit."""

    name: str
    operation: str = ""
    time_class: str = ""
    phase: str = ""


CALIBRATION = Site("scope: what an empty span costs", time_class="profiler")
"""Entered many times for nothing when a process starts to record; its events tell what recording costs."""

UNRECORDED = Site("scope: muted, to learn what recording costs", "unrecorded", "unrecorded")
"""Never entered: what a thread is in while instruments are muted (calibration/blocks.py). The program's time, and which
is not known."""


class SiteTable:
    """The sites of this process, numbered from 0; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[Site, int] = {}
        self._file: Path | None = None

    def number(self, site: Site) -> int:
        """The number of a site; written to the file, if there is one, when it is new."""
        with self._lock:
            number = self._numbers.setdefault(site, len(self._numbers))
            if self._file is not None and number == len(self._numbers) - 1:
                _append(self._file, [(number, site)])
            return number

    def write_to(self, file: Path | None) -> None:
        """From here on, write the table to a new file; None ends that."""
        with self._lock:
            self._file = file
            if file is not None:
                _append(file, [(number, site) for site, number in self._numbers.items()])

    def after_fork(self, file: Path | None) -> None:
        """In a forked child: the lock may have been held by a thread that does not exist here."""
        self._lock = threading.Lock()
        self.write_to(file)


def _append(file: Path, entries: list[tuple[int, Site]]) -> None:
    text = "".join(json.dumps({"number": number, **asdict(site)}) + "\n" for number, site in entries)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


table = SiteTable()
"""That of this process: numbers must be the same for everybody who records in it."""
