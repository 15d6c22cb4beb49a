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
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
        raise FileFormatError(
            f"{file}: expected a trace that torch.profiler exported, and it is none: {error!r}"
        ) from error
    pids = sorted({event.pid for event in events if event.category in CALLS or event.is_span})
    if len(pids) > 1:
        raise FileFormatError(f"{file}: expected a trace of one process, got {len(pids)}; give a file for each")
    return Export(file.name, pids[0] if pids else 0, events)


def _event(entry: dict[str, Any], base_ns: int) -> Event:
    begin_ns = base_ns + round(float(entry["ts"]) * 1000)
    return Event(
        begin_ns,
        begin_ns + round(float(entry.get("dur", 0)) * 1000),
        str(entry.get("cat", "")).lower(),
        str(entry.get("name", "")),
        _place(entry.get("pid")),
        _place(entry.get("tid")),
        entry.get("args") or {},
    )


def _place(found: Any) -> int:
    """A process, a thread, a device or a stream; -1 for what Kineto draws elsewhere."""
    return found if isinstance(found, int) else -1
