"""What recording a GPU cost: the records that CUPTI keeps of its own overhead, by call.

    overhead --correlation, or thread and time--> call --> cost by the call's name

Costs per call are CUPTI's own word. Nothing here switches CUPTI off and on in blocks of steps, as is done for what
scope itself adds (calibration/), so there is no second number to hold against it; reports say so.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.accelerator.calls import RECORDING, Calls, first_by_correlation
from drivetrain.scope.accelerator.intervals import Intervals, Ints
from drivetrain.scope.trace.gpu import DRIVER, OVERHEAD, RUNTIME, GpuApi, GpuTrace

SOURCE = "{source}'s own records of its overhead; not calibrated against blocks without it, so not cross-checked"


class CallCost(NamedTuple):
    """Calls of one name."""

    name: str
    time_class: str
    num: int
    ns: int
    """From their begins to their ends, together."""
    overhead_ns: int
    """Of that, what recording took."""

    @property
    def overhead_per_call_ns(self) -> float:
        """What recording adds to one of them, on average."""
        return self.overhead_ns / self.num


class RecordingCost(NamedTuple):
    """What recording itself took, as far as it says."""

    source: str
    num_records: int
    on_threads_ns: int
    """In threads of the program: class `profiler` of their time."""
    elsewhere_ns: int
    """In threads of its own, which the program does not wait for, or in none that is known."""
    driver_ns: int
    """Overhead that the driver has without recording too (loading modules, a full command buffer)."""


def cost_of(gpu: GpuTrace, calls: Calls) -> RecordingCost:
    """Totals over all threads."""
    api = calls.api
    own = calls.time_class == RECORDING
    elsewhere = own.copy()
    for rows in calls.of_thread.values():
        elsewhere[rows] = False
    on_threads = sum(_times(api, rows[own[rows]]).covered_ns for rows in calls.of_thread.values())
    return RecordingCost(
        source=SOURCE.format(source=gpu.source),
        num_records=int((api.kind == OVERHEAD).sum()),
        on_threads_ns=on_threads,
        elsewhere_ns=_times(api, np.flatnonzero(elsewhere)).sum_ns,
        driver_ns=_times(api, np.flatnonzero((api.kind == OVERHEAD) & ~own)).sum_ns,
    )


def costs_of_calls(gpu: GpuTrace, calls: Calls, classes: tuple[str, ...]) -> list[CallCost]:
    """By name, longest first."""
    api = calls.api
    overhead_ns = _overhead_of_calls(calls)
    called = np.flatnonzero((api.kind == RUNTIME) | (api.kind == DRIVER))
    found: list[CallCost] = []
    for name in np.unique(api.name[called]).tolist():
        rows = called[api.name[called] == name]
        time_class = classes[int(calls.time_class[rows[0]])]
        found.append(
            CallCost(gpu.names[name], time_class, len(rows), _times(api, rows).sum_ns, int(overhead_ns[rows].sum()))
        )
    return sorted(found, key=lambda one: (-one.ns, one.name))


def _overhead_of_calls(calls: Calls) -> Ints:
    """Per row of `calls` what recording took of it: of the call that the record names, or the innermost."""
    api = calls.api
    found = np.zeros(len(api), np.int64)
    called = (api.kind == RUNTIME) | (api.kind == DRIVER)
    own = np.flatnonzero(calls.time_class == RECORDING)
    of = first_by_correlation(api, np.flatnonzero(called), api.process[own], api.correlation[own])
    of = np.where(api.correlation[own] == 0, -1, of)
    by_row = dict(zip(own.tolist(), of.tolist(), strict=True))
    for rows in calls.of_thread.values():
        callers, asked = rows[called[rows]], [row for row in rows.tolist() if by_row.get(row) == -1]
        if len(callers) and asked:
            by_row.update(zip(asked, _around(api, callers, np.array(asked)).tolist(), strict=True))
    for row, call in by_row.items():
        if call >= 0:
            found[call] += api.end_ns[row] - api.begin_ns[row]
    return found


def _around(api: GpuApi, callers: Ints, asked: Ints) -> NDArray[np.int64]:
    """The call of a thread that began last before each time and has not ended; -1 for none."""
    at = np.searchsorted(api.begin_ns[callers], api.begin_ns[asked], side="right") - 1
    latest = callers[np.maximum(at, 0)]
    inside = (at >= 0) & (api.end_ns[latest] >= api.end_ns[asked])
    return np.where(inside, latest, -1)


def _times(api: GpuApi, rows: Ints) -> Intervals:
    return Intervals(api.begin_ns[rows], api.end_ns[rows])
