"""Records of GPUs at rest: one Parquet file beside that of the events.

Activities, calls and readings lie behind one another, each by time. When, for how long, and the correlation are
columns, as differences; everything else of a row (kind, device, stream, name, ...) is one small number from a table,
because few combinations occur. Tables, names and notes are JSON in the metadata.
"""

from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.trace.gpu import Columns, GpuActivity, GpuApi, GpuReading, GpuTrace
from drivetrain.scope.trace.parquet_file import PackedFile

_FILE = PackedFile("packed records of GPUs", b"drivetrain.scope.gpu", version=1)
_PARTS: dict[str, type[Columns]] = {"activity": GpuActivity, "api": GpuApi, "readings": GpuReading}
_OWN_COLUMNS = ("begin_ns", "end_ns", "time_ns", "correlation")
C = TypeVar("C", bound=Columns)


class _Packed(NamedTuple):
    """One part: columns of the file, and the table of everything else."""

    step_ns: NDArray[np.int64]
    length_ns: NDArray[np.int64]
    correlation: NDArray[np.int64]
    what: NDArray[np.int32]
    table: list[list[int]]


def write(gpu: GpuTrace, file: Path) -> None:
    """Write them; the file is there at once, or not at all."""
    parts = {name: _packed(getattr(gpu, name)) for name in _PARTS}
    names = ("step_ns", "length_ns", "correlation", "what")
    columns = {name: np.concatenate([getattr(part, name) for part in parts.values()]) for name in names}
    head = {
        "names": gpu.names,
        "notes": gpu.notes,
        "source": gpu.source,
        "num": {name: len(part.what) for name, part in parts.items()},
        "tables": {name: part.table for name, part in parts.items()},
    }
    _FILE.write(file, columns, head)


def read(file: Path) -> GpuTrace:
    """Read what `write` has written; rows are in order of their time.

    Raises:
        FileFormatError: The file is damaged, or of another kind or version.
    """
    columns, head = _FILE.read(file)
    start, parts = 0, dict[str, Any]()
    for name, kind in _PARTS.items():
        end = start + head["num"][name]
        found = {column: rows[start:end] for column, rows in columns.items()}
        parts[name] = _unpacked(kind, _Packed(**found, table=head["tables"][name]))
        start = end
    return GpuTrace(**parts, names=tuple(head["names"]), notes=tuple(head["notes"]), source=head["source"])


def _packed(rows: Columns) -> _Packed:
    types = rows.dtypes()
    begin, end = ("time_ns", "time_ns") if "time_ns" in types else ("begin_ns", "end_ns")
    rows = rows.where(np.argsort(getattr(rows, begin), kind="stable"))
    begin_ns = getattr(rows, begin)
    rest = [getattr(rows, name).astype(np.int64) for name in types if name not in _OWN_COLUMNS]
    table, what = np.unique(np.stack(rest, axis=1), axis=0, return_inverse=True)
    correlation = getattr(rows, "correlation", np.zeros(len(rows))).astype(np.int64)
    return _Packed(
        step_ns=np.diff(begin_ns, prepend=0),
        length_ns=getattr(rows, end) - begin_ns,
        correlation=correlation,
        what=what.ravel().astype(np.int32),
        table=table.tolist(),
    )


def _unpacked(kind: type[C], packed: _Packed) -> C:
    types = kind.dtypes()
    begin_ns = np.cumsum(packed.step_ns)
    rest = [name for name in types if name not in _OWN_COLUMNS]
    table = np.array(packed.table, np.int64).reshape(len(packed.table), len(rest))[packed.what]
    own = {
        "begin_ns": begin_ns,
        "end_ns": begin_ns + packed.length_ns,
        "time_ns": begin_ns,
        "correlation": packed.correlation,
    }
    found = {**dict(zip(rest, table.T, strict=True)), **own}
    return kind.of(**{name: np.ascontiguousarray(found[name], dtype) for name, dtype in types.items()})
