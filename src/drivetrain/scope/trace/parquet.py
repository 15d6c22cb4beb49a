"""Traces at rest: one Parquet file in place of the segments, a few bytes per event.

Threads lie behind one another. Times are differences within a thread, in a delta encoding; what an event is (kind,
site, value) is one small number from a table. Both are then compressed, and everything else is JSON in the metadata.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.sites import Site
from drivetrain.scope.trace.events import Process, Thread, Trace
from drivetrain.scope.trace.parquet_file import PackedFile

_FILE = PackedFile("a packed trace", b"drivetrain.scope", version=2)


def write(trace: Trace, file: Path) -> None:
    """Write a trace; the file is there at once, or not at all."""
    what = np.concatenate([_packed(thread) for thread in trace.threads] or [np.zeros(0, np.int64)])
    table, codes = np.unique(what, return_inverse=True)
    steps = [np.diff(thread.time_ns, prepend=trace.begin_ns) for thread in trace.threads]
    time = np.concatenate(steps or [np.zeros(0, np.int64)])
    _FILE.write(file, {"step_ns": time, "what": codes.astype(np.int32)}, _metadata(trace, table))


def read(file: Path) -> Trace:
    """Read a trace that `write` has written.

    Raises:
        FileFormatError: The file is damaged, or of another kind or version.
    """
    columns, head = _FILE.read(file)
    step_ns, what = columns["step_ns"], np.array(head["what"], np.int64)[columns["what"]]
    return Trace(
        begin_ns=head["begin_ns"],
        end_ns=head["end_ns"],
        sites=tuple(Site(**site) for site in head["sites"]),
        processes=tuple(_process(**process) for process in head["processes"]),
        threads=tuple(_threads(head, step_ns, what)),
        about=head["about"],
        notes=tuple(head["notes"]),
    )


def _process(argv: list[str], alone_ns: dict[str, list[float]], **numbers: int) -> Process:
    alone = {name: (first, second) for name, (first, second) in alone_ns.items()}
    return Process(**numbers, argv=tuple(argv), alone_ns=alone)


def _packed(thread: Thread) -> NDArray[np.int64]:
    """Kind, value and site of each event in one number."""
    return (
        thread.kind.astype(np.int64) << 48
        | thread.value.astype(np.int64) << 32
        | thread.site.astype(np.int64) & 0xFFFFFFFF
    )


def _metadata(trace: Trace, table: NDArray[np.int64]) -> dict[str, Any]:
    return {
        "begin_ns": trace.begin_ns,
        "end_ns": trace.end_ns,
        "sites": [asdict(site) for site in trace.sites],
        "processes": [asdict(process) for process in trace.processes],
        "threads": [
            {name: getattr(thread, name) for name in ("process", "number", "tid", "name", "num_dropped", "num_events")}
            for thread in trace.threads
        ],
        "about": trace.about,
        "notes": list(trace.notes),
        "what": table.tolist(),
    }


def _threads(head: dict[str, Any], step_ns: NDArray[np.int64], what: NDArray[np.int64]) -> Iterator[Thread]:
    start = 0
    for about in head["threads"]:
        end = start + about.pop("num_events")
        part = what[start:end]
        yield Thread(
            **about,
            time_ns=head["begin_ns"] + np.cumsum(step_ns[start:end]),
            kind=(part >> 48).astype(np.uint8),
            site=(part & 0xFFFFFFFF).astype(np.int32),
            value=(part >> 32 & 0xFFFF).astype(np.uint16),
        )
        start = end
