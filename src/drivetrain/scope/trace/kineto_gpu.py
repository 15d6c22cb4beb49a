"""What files of torch.profiler say of GPUs, as records of GPUs.

    kernel, gpu_memcpy, gpu_memset                -> GpuActivity
    cuda_runtime, cuda_driver, cuda_sync, overhead -> GpuApi

Threads are those of Kineto, which has the system's number for those that ran an operator while it recorded; a call of
another thread has that of the operator with its external id.
"""

from collections.abc import Iterable, Sequence, Set

from drivetrain.scope.trace import gpu as records
from drivetrain.scope.trace.gpu import GpuActivity, GpuApi, GpuReading, GpuTrace
from drivetrain.scope.trace.kineto_file import CALLS, Event, Export

_ACTIVITIES = {"kernel": records.KERNEL, "gpu_memcpy": records.COPY, "gpu_memset": records.SET}
_COPY_KINDS = ("HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
_SYNC_KINDS = {"Event Sync": 1, "Stream Wait Event": 2, "Stream Sync": 3, "Context Sync": 4}
_OVERHEAD_KINDS = {
    "Buffer Flush": records.BUFFER_FLUSH,
    "Instrumentation": records.INSTRUMENTATION,
    "Resource": records.RESOURCE,
    "Runtime Triggered Module Loading": records.MODULE_LOADING,
    "Lazy Function Loading": records.LAZY_LOADING,
    "Command Buffer Full": records.COMMAND_BUFFER_FULL,
    "Activity Buffer Request": records.BUFFER_REQUEST,
    "UVM Activity Init": records.UVM_INIT,
}


def gpu_of(exports: Sequence[tuple[Export, int]], known: Set[tuple[int, int]]) -> GpuTrace:
    """Records of GPUs, in the clock of the exports' events.

    Args:
        exports: Each with the index of its process.
        known: (process, tid) of the trace's threads.
    """
    names: dict[str, int] = {}
    activity: list[dict[str, int]] = []
    api: list[dict[str, int]] = []
    notes: list[str] = []
    for export, process in exports:
        by_external = _threads_by_external(export)
        for event in export.events:
            about = {"begin_ns": event.begin_ns, "end_ns": event.end_ns, "process": process}
            if event.category in _ACTIVITIES:
                name = names.setdefault(event.name, len(names))
                activity.append({**about, **_activity(event), "name": name})
            elif event.category in (*CALLS, "cuda_sync", "overhead"):
                name = names.setdefault(event.name, len(names))
                tid = _thread(event, export.pid)
                if event.category in CALLS and (process, tid) not in known:
                    tid = by_external.get(event.args.get("External id", 0), tid)
                api.append({**about, **_call(event), "tid": tid, "name": name})
        if not any(event.category in _ACTIVITIES for event in export.events):
            notes.append(f"{export.name} holds nothing that ran on a GPU.")
    return GpuTrace(
        activity=GpuActivity.of(**_columns(activity)),
        api=GpuApi.of(**_columns(api)),
        readings=GpuReading.of(),
        names=tuple(names),
        notes=tuple(notes),
        source="Kineto",
    )


def _activity(event: Event) -> dict[str, int]:
    kind = _ACTIVITIES[event.category]
    copy = next((i for i, name in enumerate(_COPY_KINDS, 1) if name in event.name), 0)
    return {
        "kind": kind,
        "device": _number(event, "device", event.pid),
        "context": _number(event, "context"),
        "stream": _number(event, "stream", event.tid),
        "correlation": _number(event, "correlation"),
        "nbytes": _number(event, "bytes"),
        "copy_kind": copy if kind == records.COPY else 0,
        "graph": _number(event, "graph id"),
    }


def _call(event: Event) -> dict[str, int]:
    correlation = _number(event, "correlation")
    if event.category == "cuda_sync":
        detail = _SYNC_KINDS.get(str(event.args.get("cuda_sync_kind", event.name)), _SYNC_KINDS["Stream Sync"])
        return {"kind": records.SYNC, "correlation": correlation, "detail": detail}
    if event.category == "overhead":
        return {"kind": records.OVERHEAD, "correlation": correlation, "detail": _OVERHEAD_KINDS.get(event.name, 0)}
    kind = records.RUNTIME if event.category == "cuda_runtime" else records.DRIVER
    return {"kind": kind, "correlation": correlation, "detail": 0}


def _thread(event: Event, pid: int) -> int:
    """0 for what is drawn on streams (the thread is that of the call then), or elsewhere."""
    return max(event.tid, 0) if event.pid == pid and event.category != "cuda_sync" else 0


def _threads_by_external(export: Export) -> dict[int, int]:
    """The thread of each operator: calls of threads that Kineto has no name for belong to it."""
    return {
        event.args["External id"]: event.tid for event in export.events if event.is_span and "External id" in event.args
    }


def _number(event: Event, name: str, otherwise: int = 0) -> int:
    """A number among the arguments, never negative."""
    found = event.args.get(name, otherwise)
    return max(int(found), 0) if isinstance(found, int | float) else 0


def _columns(rows: Iterable[dict[str, int]]) -> dict[str, list[int]]:
    columns: dict[str, list[int]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return columns
