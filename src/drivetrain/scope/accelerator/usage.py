"""How GPUs were used, in numbers: what reports show and `--json` holds.

GPU time counts twice what ran at the same time; busy time is the union over streams, devices and processes. A GPU is
what the program is bound by while it is busy and every thread of all processes rests: waits, waits for a device, or is
not there. Muted blocks (`unrecorded`) are not rest, so that the bound is never more than what was seen.

Where the recording of GPUs is switched off in blocks of steps, everything here is of the rest of the time, and shares
are of that (`recorded_ns`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from drivetrain.scope.accelerator.devices import Devices
from drivetrain.scope.accelerator.launches import GAP
from drivetrain.scope.accelerator.readings import Comparison, compare
from drivetrain.scope.accelerator.recording import CallCost, RecordingCost, checks_of, cost_of, costs_of_calls
from drivetrain.scope.calibration.device_costs import DeviceCost
from drivetrain.scope.intervals import Intervals
from drivetrain.scope.overlap import names
from drivetrain.scope.trace.gpu import COPY, SET

GPU_CLASSES = ("gpu_kernel", "gpu_copy")
RESTING = frozenset({"wait", "accelerator_sync"})


@dataclass(frozen=True, kw_only=True)
class DeviceUse:
    """One device, by all processes."""

    device: int
    busy_ns: int
    kernel_ns: int
    copy_ns: int
    num_kernels: int
    num_copies: int
    copied_nbytes: int
    nvml: Comparison | None
    """None where there are no readings."""


@dataclass(frozen=True, kw_only=True)
class LaunchedTime:
    """GPU time that one operation launched."""

    operation: str
    time_class: str
    ns: int
    num: int


@dataclass(frozen=True, kw_only=True)
class Usage:
    """All of it."""

    source: str
    wall_ns: int
    recorded_ns: int
    """Of that, while all processes that used GPUs recorded them: what everything else here is of."""
    busy_ns: int
    """Something ran on some device."""
    bound_ns: int
    """Of that, while all threads rested."""
    gpu_ns: int
    """Times of all activities together."""
    operations: tuple[LaunchedTime, ...]
    """Longest first; they sum to `gpu_ns`."""
    meanwhile: Mapping[tuple[str, ...], int]
    """What threads did while something ran: classes -> ns, longest first; sums to `busy_ns`."""
    busy_of_processes: Mapping[str, int]
    """Process -> busy time of what it launched."""
    devices: tuple[DeviceUse, ...]
    calls: tuple[CallCost, ...]
    median_delay_ns: float | None
    """From a call's begin to that of what it launched; None where no activity has a call."""
    recording: RecordingCost

    @property
    def busy_in_all_ns(self) -> float:
        """Busy time extrapolated to the wall time, as if it had been as busy where it was not recorded."""
        return self.busy_ns * self.wall_ns / self.recorded_ns if self.recorded_ns else 0.0

    @property
    def was_used(self) -> bool:
        """Whether anything ran on a device."""
        return bool(self.devices)

    def as_json(self) -> dict[str, Any]:
        """JSON's types only."""
        found = asdict(self)
        found["operations"] = [_with_class(asdict(one)) for one in self.operations]
        found["meanwhile"] = [{"classes": list(classes), "ns": ns} for classes, ns in self.meanwhile.items()]
        found["devices"] = [{**asdict(one), "nvml": one.nvml and one.nvml._asdict()} for one in self.devices]
        per_call = "overhead_per_call_ns"
        found["calls"] = [{**_with_class(one._asdict()), per_call: one.overhead_per_call_ns} for one in self.calls]
        found["recording"] = {
            **self.recording._asdict(),
            "calibrated": [
                one._asdict() | {"calls": [c._asdict() for c in one.calls], "ratio": one.ratio}
                for one in self.recording.checks
            ],
        }
        del found["recording"]["checks"]
        found["busy_in_all_ns"] = self.busy_in_all_ns
        return found


def _with_class(entry: dict[str, Any]) -> dict[str, Any]:
    return {("class" if name == "time_class" else name): value for name, value in entry.items()}


def usage_of(devices: Devices, overlaps: Mapping[int, float], costs: Sequence[DeviceCost | None]) -> Usage:
    """The numbers of a trace.

    Args:
        devices: Its records.
        overlaps: Time by mask of classes and operations (scope/overlap.py), devices being in it.
        costs: What recording costs a call in each process.
    """
    pids = devices.trace.process_names
    meanwhile = _meanwhile(devices, overlaps)
    activity, api = devices.gpu.activity, devices.calls.api
    launched = np.flatnonzero(devices.counted & (devices.launches.call >= 0))
    delays = activity.begin_ns[launched] - api.begin_ns[devices.launches.call[launched]]
    return Usage(
        source=devices.gpu.source,
        wall_ns=devices.trace.end_ns - devices.trace.begin_ns,
        recorded_ns=devices.recorded_ns,
        busy_ns=devices.recorded.covered_ns,
        bound_ns=sum(ns for classes, ns in meanwhile.items() if RESTING.issuperset(classes)),
        gpu_ns=_some(devices, devices.counted).sum_ns,
        operations=tuple(_launched(devices)),
        meanwhile=meanwhile,
        busy_of_processes=_busy_of_processes(devices),
        devices=tuple(_device(devices, int(device)) for device in np.unique(activity.device)),
        calls=tuple(costs_of_calls(devices.gpu, devices.calls, devices.gap)),
        median_delay_ns=float(np.median(delays)) if len(delays) else None,
        recording=cost_of(devices.gpu, devices.calls, checks_of(pids, costs)),
    )


def _some(devices: Devices, wanted: Any) -> Intervals:
    return Intervals(devices.recorded.begin[wanted], devices.recorded.end[wanted])


def _meanwhile(devices: Devices, overlaps: Mapping[int, float]) -> dict[tuple[str, ...], int]:
    found: Counter[tuple[str, ...]] = Counter()
    for mask, ns in overlaps.items():
        classes, operations = names(mask, devices.space)
        if set(classes) & set(GPU_CLASSES) and GAP.operation not in operations:
            found[tuple(name for name in classes if name not in GPU_CLASSES)] += int(ns)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _launched(devices: Devices) -> list[LaunchedTime]:
    totals: Counter[tuple[str, str]] = Counter()
    numbers: Counter[tuple[str, str]] = Counter()
    for code in np.unique(devices.launches.state).tolist():
        mine = devices.counted & (devices.launches.state == code)
        state = devices.space.state(code)
        totals[state.operation, state.time_class] += _some(devices, mine).sum_ns
        numbers[state.operation, state.time_class] += int(mine.sum())
    found = [
        LaunchedTime(operation=o, time_class=c, ns=ns, num=numbers[o, c])
        for (o, c), ns in totals.items()
        if numbers[o, c]
    ]
    return sorted(found, key=lambda one: (-one.ns, one.operation, one.time_class))


def _busy_of_processes(devices: Devices) -> dict[str, int]:
    activity, names = devices.gpu.activity, devices.trace.process_names
    numbers: list[int] = np.unique(activity.process).tolist()
    return {names[i]: _some(devices, activity.process == i).covered_ns for i in numbers}


def _device(devices: Devices, device: int) -> DeviceUse:
    activity = devices.gpu.activity
    mine = activity.device == device
    transfers = (activity.kind == COPY) | (activity.kind == SET)
    kernels, copies = mine & devices.counted & ~transfers, mine & transfers
    busy = _some(devices, mine)
    return DeviceUse(
        device=device,
        busy_ns=busy.covered_ns,
        kernel_ns=_some(devices, kernels).sum_ns,
        copy_ns=_some(devices, copies).sum_ns,
        num_kernels=int(kernels.sum()),
        num_copies=int(copies.sum()),
        copied_nbytes=int(activity.nbytes[mine & (activity.kind == COPY)].sum()),
        nvml=compare(devices.gpu.readings, device, busy, devices.clock),
    )
