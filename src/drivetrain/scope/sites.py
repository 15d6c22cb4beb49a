"""Sites: what a program can be in, as the recorder numbers it and as reports name it.

    site ("CartPoleEnv.step") -> operation ("simulation"), class of time ("simulator"), phase

A site sets what it names and inherits the rest from the site around it. Each process numbers its sites as it
meets them and writes the table beside its events: one JSON line per site, before the site is first entered. What is
learned of a site later is another line, which holds for all of its events.
"""

import contextlib
import itertools
import json
import os
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
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

WAITING = ("wait", "idle")
"""Those in which a thread does nothing."""
NATIVE = frozenset({"simulator", "backend", "accelerator_api", "accelerator_sync"})
"""Classes that Python calls into."""

FORWARD = "scope: forward"
"""The operation of a network's forward pass until analysis knows what it was for (scope/rules.py)."""

NETWORK = "scope: network"
"""Presumed of a jitted function that may be a forward pass, until analysis has seen what became of its results ..."""

FETCHED = "scope: fetched"
"""... and of waiting for results, until it knows whose (scope/acting.py)."""

SEVERAL = "scope: several"
"""... and of a jitted function that is a policy, its simulator and more at once; waiting for it belongs to no other."""

UNDECIDED = frozenset({FORWARD, NETWORK, FETCHED, SEVERAL})
"""What no time is shown as: analysis finds the operation, or leaves it to what is around. No names that programs give
to operations of their own, such as "forward"."""


@dataclass(frozen=True)
class Site:
    """A place in the program; empty strings inherit."""

    name: str
    operation: str = ""
    time_class: str = ""
    phase: str = ""
    presumed: str = ""
    """The operation where nothing around sets one."""


CALIBRATION = Site("scope: what an empty span costs", time_class="profiler")
"""Entered many times for nothing when a process starts to record; its events tell what recording costs."""

AROUND_CALIBRATION = Site("scope: what is around empty spans", time_class="profiler")
"""Tells with CALIBRATION what a span costs, where sums are kept; in events the time between two empty spans tells what
is around one."""

UNRECORDED = Site("scope: muted, to learn what recording costs", "unrecorded", "unrecorded")
"""Never entered: what a thread is in while instruments are muted (trace/blocks.py). The program's time, and which
is not known."""

MEMBER = Site("a vector environment's process")
"""What a process is in, from begin to end, that steps one environment of a vector environment in another process, which
counts its steps."""


class SiteTable:
    """The sites of this process, numbered from 0; for all threads, and for what interrupts one (handlers of signals,
    finalizers).
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._numbers: dict[Site, int] = {}
        self._sites: dict[int, Site] = {}
        self._next = itertools.count()
        self._file: Path | None = None

    def number(self, site: Site) -> int:
        """The number of a site; written to the file, if there is one, when it is new."""
        with self._lock:
            if (number := self._numbers.get(site)) is None:
                number = next(self._next)
                self._sites[number] = site
                self._numbers[site] = number
                self._write([number])
            return number

    def site(self, number: int) -> Site:
        """The site of a number."""
        return self._sites[number]

    def presume(self, number: int, operation: str) -> None:
        """Say, of a site that is known already, what its operation is where nothing around sets one."""
        with self._lock:
            if self._sites[number].presumed != operation:
                self._sites[number] = replace(self._sites[number], presumed=operation)
                self._write([number])

    def write_to(self, file: Path | None) -> None:
        """From here on, write the table to a new file; None ends that."""
        with self._lock:
            self._file = file
            self._write(list(self._sites))

    def after_fork(self) -> None:
        """In a forked child: the lock may have been held by a thread that does not exist here."""
        self._lock = threading.RLock()

    def _write(self, numbers: Iterable[int]) -> None:
        if self._file is not None:
            _append(self._file, [(number, self._sites[number]) for number in numbers])


def _append(file: Path, entries: list[tuple[int, Site]]) -> None:
    """Where nothing can be written, as on a full disk, sites have no name in reports, and the program runs on."""
    text = "".join(json.dumps({"number": number, **asdict(site)}) + "\n" for number, site in entries)
    with contextlib.suppress(OSError):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


table = SiteTable()
"""That of this process: numbers must be the same for everybody who records in it."""
os.register_at_fork(after_in_child=table.after_fork)
