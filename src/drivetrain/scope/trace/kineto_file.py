"""The file of torch.profiler (Kineto's Chrome trace), as events of one process.

JSON, or gzipped -> Export: complete events in nanoseconds of the wall clock

Kineto writes times in microseconds after `baseTimeNanoseconds`; before it had that, after the epoch.
"""

import gzip
import json
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from drivetrain.core.errors import FileFormatError

CALLS = ("cuda_runtime", "cuda_driver")
_SPANS = ("cpu_op", "user_annotation")
_GZIP = b"\x1f\x8b"
_LATEST_NS = 2**62
_MOST = {
    "External id": 2**63 - 1,
    "bytes": 2**63 - 1,
    "correlation": 2**32 - 1,
    "graph id": 2**32 - 1,
    "context": 2**31 - 1,
    "stream": 2**31 - 1,
    "device": 2**15 - 1,
}
"""The largest number of each argument that is read, as the columns of a trace hold it."""


class Event(NamedTuple):
    """A complete event of the file, in nanoseconds of the wall clock."""

    begin_ns: int
    end_ns: int
    category: str
    name: str
    pid: int
    """-1 where it is none of a process."""
    tid: int
    args: dict[str, Any]

    @property
    def is_span(self) -> bool:
        """Whether it says what a thread of the program did."""
        return self.category in _SPANS and self.tid >= 0


@dataclass(frozen=True, eq=False)
class Export:
    """What a file holds."""

    name: str
    pid: int
    events: tuple[Event, ...]

    def shifted(self, ns: int) -> "Export":
        """With another clock."""
        moved = (event._replace(begin_ns=event.begin_ns + ns, end_ns=event.end_ns + ns) for event in self.events)
        return replace(self, events=tuple(moved))


def read(file: Path) -> Export:
    """Read a file.

    Raises:
        FileFormatError: It is damaged, or not of Kineto, or of several processes.
    """
    raw = file.read_bytes()
    try:
        found: Any = json.loads(gzip.decompress(raw) if raw.startswith(_GZIP) else raw)
        base_ns = int(found.get("baseTimeNanoseconds", 0))
        # Metadata, arrows and instants, and what Kineto draws for whole traces, are no events of a thread or device.
        complete = [entry for entry in found["traceEvents"] if entry.get("ph") == "X" and entry.get("cat") != "Trace"]
        events = tuple(_event(entry, base_ns) for entry in complete)
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError,
            zlib.error) as error:  # fmt: skip
        why = f"{type(error).__name__}: {error}"  # its repr may hold the whole file
        raise FileFormatError(
            f"{file}: expected a trace that torch.profiler exported, and it is none: {why}"
        ) from error
    pids = sorted({event.pid for event in events if event.category in CALLS or event.is_span})
    if len(pids) > 1:
        raise FileFormatError(f"{file}: expected a trace of one process, got {len(pids)}; give a file for each")
    return Export(file.name, pids[0] if pids else 0, events)


def _event(entry: dict[str, Any], base_ns: int) -> Event:
    begin_ns = base_ns + round(float(entry["ts"]) * 1000)
    end_ns = begin_ns + round(float(entry.get("dur", 0)) * 1000)
    if max(abs(begin_ns), abs(end_ns)) > _LATEST_NS or end_ns < begin_ns:
        raise ValueError(f"no time: {entry['ts']}, {entry.get('dur')}")
    return Event(
        begin_ns,
        end_ns,
        str(entry.get("cat", "")).lower(),
        str(entry.get("name", "")),
        _place(entry.get("pid")),
        _place(entry.get("tid")),
        _arguments(entry.get("args") or {}),
    )


def _arguments(found: Any) -> dict[str, Any]:
    """The same, if it is none but numbers that a trace can hold."""
    for name, most in _MOST.items():
        number = found.get(name, 0)
        if isinstance(number, int | float) and not -most <= number <= most:
            raise ValueError(f"{name}: expected at most {most}, got {number}")
        if name == "External id" and not isinstance(number, int):
            raise ValueError(f"{name}: expected a number, got {number!r}")
    return found


def _place(found: Any) -> int:
    """A process, a thread, a device or a stream; -1 for what Kineto draws elsewhere."""
    return found if isinstance(found, int) and found < 2**31 else -1
