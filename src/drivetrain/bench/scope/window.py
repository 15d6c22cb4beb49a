"""The window of a program: from the first step of its work to the last, as the program itself sees it.

Imports, and whatever a tool does at the start and at the end, are outside.
"""

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

FILE = Path("window.json")


@dataclass(frozen=True, kw_only=True)
class Window:
    """When the work of a process began and ended.

    Attributes:
        pid: The process.
        begin_ns: On the monotonic clock, which recordings use too.
        end_ns: On the same.
        cpu_s: CPU-seconds of all its threads in between.
    """

    pid: int
    begin_ns: int
    end_ns: int
    cpu_s: float

    @property
    def wall_s(self) -> float:
        """How long it was."""
        return (self.end_ns - self.begin_ns) / 1e9

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `window` wrote in a folder."""
        return cls(**json.loads((folder / FILE).read_text()))


@contextmanager
def window() -> Generator[None]:
    """Everything inside is the work; written into the current folder when it is done."""
    begin_ns, begin_cpu_s = time.monotonic_ns(), time.process_time()
    yield
    cpu_s, end_ns = time.process_time() - begin_cpu_s, time.monotonic_ns()
    found = Window(pid=os.getpid(), begin_ns=begin_ns, end_ns=end_ns, cpu_s=cpu_s)
    FILE.write_text(json.dumps(asdict(found)))
