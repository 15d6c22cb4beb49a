"""GPUs for Perfetto: a track for each stream, calls in their threads, an arrow from each launch to what it began."""

from collections.abc import Iterator
from typing import Any

from drivetrain.scope.accelerator.calls import NO_CLASS
from drivetrain.scope.accelerator.devices import Devices
from drivetrain.scope.accelerator.tracks import tracks_of
from drivetrain.scope.sites import CLASSES

_FIRST_TRACK = 2**22
"""Above every number that Linux gives a thread (PID_MAX_LIMIT)."""


def events(devices: Devices) -> Iterator[dict[str, Any]]:
    """Times in microseconds from the session's begin, as those of all events."""
    yield from _calls(devices)
    for number, (track, rows) in enumerate(tracks_of(devices.gpu.activity).items()):
        where = {"pid": devices.trace.processes[track.process].pid, "tid": _FIRST_TRACK + number}
        yield {"ph": "M", **where, "name": "thread_name", "args": {"name": track.name}}
        for row in rows.tolist():
            yield from _activity(devices, row, where)


def _activity(devices: Devices, row: int, where: dict[str, int]) -> Iterator[dict[str, Any]]:
    activity, state = devices.gpu.activity, devices.space.state(int(devices.launches.state[row]))
    begin, end = int(activity.begin_ns[row]), int(activity.end_ns[row])
    args = {"operation": state.operation, "class": state.time_class, "correlation": int(activity.correlation[row])}
    if activity.nbytes[row]:
        args["nbytes"] = int(activity.nbytes[row])
    name = _name(devices, int(activity.name[row]), state.time_class)
    at = {**_at(devices, begin), **where, "dur": (end - begin) / 1000}
    yield {"ph": "X", **at, "name": name, "cat": state.operation, "args": args}
    call = int(devices.launches.call[row])
    if call >= 0 and devices.calls.api.tid[call]:
        arrow = {"name": "launch", "cat": "launch", "id": row}
        pid, tid = where["pid"], int(devices.calls.api.tid[call])
        yield {"ph": "s", **arrow, **_at(devices, int(devices.calls.api.begin_ns[call])), "pid": pid, "tid": tid}
        yield {"ph": "f", "bp": "e", **arrow, **_at(devices, begin), **where}


def _calls(devices: Devices) -> Iterator[dict[str, Any]]:
    calls = devices.calls
    for (process, tid), rows in calls.of_thread.items():
        where = {"pid": devices.trace.processes[process].pid, "tid": tid}
        for row in rows[calls.time_class[rows] != NO_CLASS].tolist():
            begin, end = int(calls.api.begin_ns[row]), int(calls.api.end_ns[row])
            time_class = CLASSES[int(calls.time_class[row])]
            name = _name(devices, int(calls.api.name[row]), time_class)
            at = {**_at(devices, begin), **where, "dur": (end - begin) / 1000}
            args = {"class": time_class, "correlation": int(calls.api.correlation[row])}
            yield {"ph": "X", **at, "name": name, "cat": time_class, "args": args}


def _name(devices: Devices, number: int, otherwise: str) -> str:
    names = devices.gpu.names
    return names[number] if 0 <= number < len(names) and names[number] else otherwise


def _at(devices: Devices, time_ns: int) -> dict[str, float]:
    return {"ts": (time_ns - devices.trace.begin_ns) / 1000}
