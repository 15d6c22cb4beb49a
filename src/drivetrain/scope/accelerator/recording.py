"""What recording a GPU cost: the records that CUPTI keeps of its own overhead, by call.

    overhead --correlation, or thread and time--> call --> cost by the call's name

That is CUPTI's own word. Beside it stands what blocks of steps without recording say (calibration/device_costs.py),
where there are enough of them: `Check`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.accelerator.calls import RECORDING, Calls, first_by_correlation
from drivetrain.scope.calibration.device_calls import KINDS
from drivetrain.scope.calibration.device_costs import DeviceCost
from drivetrain.scope.intervals import Intervals, Ints
from drivetrain.scope.sites import CLASSES
from drivetrain.scope.trace.gpu import DRIVER, OVERHEAD, RUNTIME, SWITCHED_OFF, SWITCHED_ON, GpuApi, GpuTrace

SOURCE = "{source}'s own records of its overhead"
_UNCHECKED = "; not calibrated against blocks without it, so not cross-checked"
_TWO_SIDED_95 = 1.96
_SWITCHES = (SWITCHED_OFF, SWITCHED_ON)


class CalibratedCalls(NamedTuple):
    """Calls of one kind, in blocks of steps of one thread that were recorded."""

    kind: str
    num: int
    ns: float
    """What recording adds to one of them ..."""
    se_ns: float
    own_ns: float
    """... and what the recorder says of that."""
    together: tuple[str, ...]
    """Kinds that this one could not be told apart from, and has one cost with."""


class Check(NamedTuple):
    """What recording took of a thread by its blocks, beside what the recorder says of itself."""

    process: str
    calls: tuple[CalibratedCalls, ...]
    num_blocks: int
    num_muted: int
    """Of them without recording."""
    ns: float
    """In the recorded blocks together, by the blocks ..."""
    se_ns: float
    own_ns: float
    """... and by the recorder's own records."""
    agrees: bool
    """Whether the two differ by no more than the error of their difference (two-sided 95%)."""

    @property
    def ratio(self) -> float | None:
        """What blocks say over what the recorder says; None where it says nothing."""
        return self.ns / self.own_ns if self.own_ns else None


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
    switching_ns: int
    """Of that on threads, switching the recording off and on between blocks of steps."""
    checks: tuple[Check, ...]
    """By process, of those whose blocks tell."""


def checks_of(processes: Sequence[str], costs: Sequence[DeviceCost | None]) -> tuple[Check, ...]:
    """What blocks of steps say, by process.

    Args:
        processes: What they are called.
        costs: Of each; None where its blocks do not tell.
    """
    found = zip(processes, costs, strict=True)
    return tuple(_check(process, cost) for process, cost in found if cost is not None)


def _check(process: str, cost: DeviceCost) -> Check:
    calls = [
        CalibratedCalls(
            kind=KINDS[kind],
            num=int(cost.num[kind]),
            ns=float(cost.per_call_ns[kind]),
            se_ns=float(cost.se_ns[kind]),
            own_ns=float(cost.own_ns[kind] / cost.num[kind]),
            together=tuple(KINDS[other] for other in group if other != kind and cost.num[other]),
        )
        for group in cost.groups
        for kind in group
        if cost.num[kind]
    ]
    difference = cost.calibrated_ns - cost.overhead_ns
    return Check(
        process=process,
        calls=tuple(sorted(calls, key=lambda one: KINDS.index(one.kind))),
        num_blocks=cost.num_blocks,
        num_muted=cost.num_muted,
        ns=cost.calibrated_ns,
        se_ns=cost.calibrated_se_ns,
        own_ns=cost.overhead_ns,
        agrees=abs(difference) <= _TWO_SIDED_95 * cost.calibrated_se_ns,
    )


def cost_of(gpu: GpuTrace, calls: Calls, checks: tuple[Check, ...]) -> RecordingCost:
    """Totals over all threads."""
    api = calls.api
    switches = np.isin(api.detail, _SWITCHES) & (api.kind == OVERHEAD)
    own = calls.time_class == RECORDING
    elsewhere = own.copy()
    for rows in calls.of_thread.values():
        elsewhere[rows] = False
    on_threads = sum(_times(api, rows[own[rows]]).covered_ns for rows in calls.of_thread.values())
    return RecordingCost(
        source=SOURCE.format(source=gpu.source) + ("" if checks else _UNCHECKED),
        num_records=int(((api.kind == OVERHEAD) & ~switches).sum()),
        on_threads_ns=on_threads,
        elsewhere_ns=_times(api, np.flatnonzero(elsewhere)).sum_ns,
        driver_ns=_times(api, np.flatnonzero((api.kind == OVERHEAD) & ~own)).sum_ns,
        switching_ns=_times(api, np.flatnonzero(switches)).sum_ns,
        checks=checks,
    )


def costs_of_calls(gpu: GpuTrace, calls: Calls, gap: Intervals) -> list[CallCost]:
    """By name, longest first; without those in a gap, where most are not recorded."""
    api = calls.api
    overhead_ns = _overhead_of_calls(calls)
    called = np.flatnonzero(((api.kind == RUNTIME) | (api.kind == DRIVER)) & ~gap.contain(api.begin_ns))
    found: list[CallCost] = []
    for name in np.unique(api.name[called]).tolist():
        rows = called[api.name[called] == name]
        time_class = CLASSES[int(calls.time_class[rows[0]])]
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
