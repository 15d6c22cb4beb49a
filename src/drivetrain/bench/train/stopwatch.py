"""CPU and wall seconds of this process and all its descendants, with evaluations taken out."""

import os
import resource
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from drivetrain.core.processes import descendants

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def wall_seconds() -> float:
    """The clock on the wall, from an arbitrary zero."""
    return time.perf_counter()


def cpu_seconds() -> float:
    """User and system time of this process, of children that ended, and of descendants alive.

    Living descendants count with the kernel's resolution (10 ms each), the others exactly.
    """
    own = sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    return own + sum(map(living_cpu_seconds, descendants(os.getpid())))


def living_cpu_seconds(pid: int) -> float:
    """Time of one process and of the children it has waited for; 0 when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    after_name = stat.rpartition(")")[2].split()
    return sum(map(int, after_name[11:15])) / TICKS_PER_S  # utime, stime, cutime, cstime


@dataclass
class Stopwatch:
    """Runs from its making; `paused` takes a span out of both times; `stop` holds them for good."""

    _cpu_start_s: float = field(default_factory=lambda: cpu_seconds())
    _wall_start_s: float = field(default_factory=lambda: wall_seconds())
    _stopped: tuple[float, float] | None = None

    def read(self) -> tuple[float, float]:
        """CPU-seconds and wall seconds so far."""
        if self._stopped is not None:
            return self._stopped
        return cpu_seconds() - self._cpu_start_s, wall_seconds() - self._wall_start_s

    def stop(self) -> None:
        """Keep the times as they are now; a second stop changes nothing."""
        self._stopped = self.read()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Take what happens inside out of both times. Other processes should be idle meanwhile."""
        cpu_s, wall_s = cpu_seconds(), wall_seconds()
        try:
            yield
        finally:
            self._cpu_start_s += cpu_seconds() - cpu_s
            self._wall_start_s += wall_seconds() - wall_s
