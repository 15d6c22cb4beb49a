"""Reads what was recorded of GPUs from a session's folder: segments up to the last whole record, names, readings.

FOLDER/*.gpu, *.gpu-names, gpu.readings -> GpuTrace
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import FileFormatError
from drivetrain.scope import _native
from drivetrain.scope.cupti import readings
from drivetrain.scope.notes import GPU_REFUSED
from drivetrain.scope.trace.files import header_of
from drivetrain.scope.trace.gpu import GRAPH, GpuActivity, GpuApi, GpuReading, GpuTrace

# GpuSegmentHeader and GpuRecord of cpp/include/drivetrain/gpu_log.hpp and scope/cupti/gpu_record.hpp.
_HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("header_nbytes", "<u4"),
        ("process_start", "<u8"),
        ("pid", "<u4"),
        ("sequence", "<u4"),
        ("record_version", "<u4"),
        ("record_nbytes", "<u4"),
    ]
)
_RECORD = np.dtype(
    [
        ("begin_ns", "<i8"),
        ("end_ns", "<i8"),
        ("value", "<i8"),
        ("correlation", "<u4"),
        ("name", "<u4"),
        ("context", "<i4"),
        ("stream", "<i4"),
        ("graph", "<u4"),
        ("device", "<i2"),
        ("kind", "u1"),
        ("detail", "u1"),
    ]
)
_MAGIC = b"dtscgpu1"
_CALLS, _EXTERNAL, _DROPPED, _UNTIMED = 16, 33, 34, 35
_READING = np.dtype(
    [("time_ns", "<i8"), ("memory_nbytes", "<i8"), ("device", "<i2"), ("utilization", "u1"), ("unused", "V5")]
)


class Recorded(NamedTuple):
    """A process of which a session knows, as it is in the trace."""

    process: int
    sites: NDArray[np.int32]
    """The trace's index of each of its sites' numbers; the last one is for the unknown."""


def read_folder(folder: Path, processes: Mapping[tuple[int, int], Recorded]) -> GpuTrace | None:
    """What was recorded of GPUs; None where nothing was.

    Args:
        folder: That of a session.
        processes: By pid and start.

    Raises:
        FileFormatError: A file is of another version.
    """
    names: dict[str, int] = {"unknown": 0}
    parts: list[NDArray[Any]] = []
    owners: list[Recorded] = []
    for file in sorted(folder.glob("*.gpu")):
        head, records = _segment(file)
        key = (int(head["pid"]), int(head["process_start"])) if head is not None else (0, 0)
        if len(records) and key in processes:
            numbers = _names(folder, *key, names)
            records["name"] = numbers[np.where(records["name"] < len(numbers), records["name"], 0)]
            parts.append(records)
            owners.append(processes[key])
    sampled = _readings(folder)
    if not parts and not len(sampled):
        return None
    records = np.concatenate(parts) if parts else np.zeros(0, _RECORD)
    process = np.repeat([owner.process for owner in owners], [len(part) for part in parts]).astype(np.int32)
    return GpuTrace(
        activity=_activity(records, process),
        api=_api(parts, owners),
        readings=sampled,
        names=tuple(names),
        notes=tuple(_notes(records)),
    )


def lost_in(folder: Path) -> list[str]:
    """That there was something to record of GPUs, which has names, and no room for it; else nothing."""
    if not any(folder.glob("*.gpu-names")) or any(folder.glob("*.gpu")):
        return []
    return [f"{GPU_REFUSED}: its records found no room in the session's budget, or on the disk."]


def _segment(file: Path) -> tuple[Any, NDArray[Any]]:
    """Header and records of a file; none of a file that ends before its header is whole."""
    raw = file.read_bytes()
    header = header_of(file, raw, _HEADER, _MAGIC, "records of a GPU")
    if header is None:
        return None, np.zeros(0, _RECORD)
    if header["record_version"] != _native.GPU_RECORD_VERSION:
        raise FileFormatError(
            f"{file}: expected records of version {_native.GPU_RECORD_VERSION}, got {header['record_version']}; "
            "read it by the drivetrain that recorded it"
        )
    start = int(header["header_nbytes"])
    records = np.frombuffer(raw, _RECORD, (len(raw) - start) // _RECORD.itemsize, start)
    unwritten = np.flatnonzero(records["begin_ns"] == 0)
    return header, records[: unwritten[0] if len(unwritten) else None].copy()


def _names(folder: Path, pid: int, start: int, names: dict[str, int]) -> NDArray[np.uint32]:
    """The trace's index of each number of a process's names, which count from 1; what is cut off is unknown."""
    file = folder / f"{pid}-{start}.gpu-names"
    whole = file.read_bytes().split(b"\0")[:-1] if file.exists() else []
    own = ["unknown", *(text.decode(errors="replace") for text in whole)]
    return np.array([names.setdefault(name, len(names)) for name in own], np.uint32)


def _activity(records: NDArray[Any], process: NDArray[np.int32]) -> GpuActivity:
    wanted = records["kind"] <= GRAPH
    rows = records[wanted]
    same = ("begin_ns", "end_ns", "kind", "device", "context", "stream", "correlation", "name", "graph")
    return GpuActivity.of(
        **{name: rows[name] for name in same}, process=process[wanted], nbytes=rows["value"], copy_kind=rows["detail"]
    )


def _api(parts: Sequence[NDArray[Any]], owners: Sequence[Recorded]) -> GpuApi:
    """Calls of all processes, each with the site that its thread was in: correlations are of a process."""
    found: list[NDArray[Any]] = []
    external: list[NDArray[np.uint64]] = []
    process: list[NDArray[np.int32]] = []
    for index in sorted({owner.process for owner in owners}):
        own = np.concatenate([part for part, owner in zip(parts, owners, strict=True) if owner.process == index])
        sites = next(owner.sites for owner in owners if owner.process == index)
        calls = own[(own["kind"] > _CALLS) & (own["kind"] < _EXTERNAL)]
        found.append(calls)
        external.append(_sites_of(calls["correlation"], own[own["kind"] == _EXTERNAL], sites))
        process.append(np.full(len(calls), index, np.int32))
    rows = np.concatenate(found) if found else np.zeros(0, _RECORD)
    same = ("begin_ns", "end_ns", "correlation", "name", "detail")
    return GpuApi.of(
        **{name: rows[name] for name in same},
        kind=rows["kind"] - _CALLS,
        tid=rows["value"],
        external=np.concatenate(external) if external else [],
        process=np.concatenate(process) if process else [],
    )


def _sites_of(correlation: NDArray[Any], links: NDArray[Any], sites: NDArray[np.int32]) -> NDArray[np.uint64]:
    """1 + the trace's site of each call, or 0. Links hold 1 + the process's own number of it."""
    found = np.zeros(len(correlation), np.uint64)
    if len(links) and len(correlation):
        links = links[np.argsort(links["correlation"], kind="stable")]
        at = np.minimum(np.searchsorted(links["correlation"], correlation), len(links) - 1)
        own = np.clip(links["value"][at] - 1, 0, len(sites) - 1)
        is_linked = (links["correlation"][at] == correlation) & (correlation != 0)
        found[is_linked] = sites[own[is_linked]].astype(np.uint64) + 1
    return found


def _readings(folder: Path) -> GpuReading:
    file = folder / readings.FILE
    raw = file.read_bytes() if file.exists() else b""
    rows = np.frombuffer(raw, _READING, len(raw) // _READING.itemsize)
    return GpuReading.of(**{name: rows[name] for name in ("time_ns", "memory_nbytes", "device", "utilization")})


def _notes(records: NDArray[Any]) -> list[str]:
    dropped, untimed = (int(records["value"][records["kind"] == kind].sum()) for kind in (_DROPPED, _UNTIMED))
    notes: list[str] = []
    if dropped:
        notes.append(f"{dropped} records of the GPU found no room in CUPTI's buffers and are missing.")
    if untimed:
        notes.append(f"{untimed} activities of the GPU are missing, because it had no room for their times.")
    return notes
