"""Traces at rest: one Parquet file in place of the segments, a few bytes per event.

Threads lie behind one another. Times are differences within a thread, in a delta encoding; what an event is (kind,
site, value) is one small number from a table. Both are then compressed, and everything else is JSON in the metadata.
"""

# PyArrow ships no types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from drivetrain.core.errors import FileFormatError
from drivetrain.scope.sites import Site
from drivetrain.scope.trace.events import Process, Thread, Trace

VERSION = 2
_KEY = b"drivetrain.scope"


def write(trace: Trace, file: Path) -> None:
    """Write a trace; the file is there at once, or not at all."""
    what = np.concatenate([_packed(thread) for thread in trace.threads] or [np.zeros(0, np.int64)])
    table, codes = np.unique(what, return_inverse=True)
    steps = [np.diff(thread.time_ns, prepend=trace.begin_ns) for thread in trace.threads]
    time = np.concatenate(steps or [np.zeros(0, np.int64)])
    columns: Any = pa.table({"step_ns": time, "what": codes.astype(np.int32)})
    aside = file.with_name(f"{file.name}.new")
    pq.write_table(
        columns.replace_schema_metadata({_KEY: json.dumps(_metadata(trace, table)).encode()}),
        aside,
        compression="zstd",
        compression_level=9,
        use_dictionary=["what"],  # pyright: ignore[reportArgumentType]
        column_encoding={"step_ns": "DELTA_BINARY_PACKED"},
    )
    aside.replace(file)


def read(file: Path) -> Trace:
    """Read a trace that `write` has written.

    Raises:
        FileFormatError: The file is damaged, or of another kind or version.
    """
    try:
        columns: Any = pq.read_table(file)
    except pa.ArrowInvalid as error:
        raise FileFormatError(f"{file}: expected a packed trace, and it cannot be read: {error}") from error
    head = json.loads((columns.schema.metadata or {}).get(_KEY, b"{}"))
    if head.get("version") != VERSION:
        raise FileFormatError(f"{file}: expected a packed trace of version {VERSION}, got {head.get('version')}")
    table = np.array(head["what"], np.int64)
    step_ns = cast("NDArray[np.int64]", columns["step_ns"].to_numpy())
    what = table[columns["what"].to_numpy()]
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
        "version": VERSION,
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
