"""When what GPUs did was not recorded, because blocks of steps without it tell what recording costs.

    thread     │ recorded       │ switched off            │ switched on again
    GPU        │ ▒▒▒ ▒▒▒▒▒ ▒▒▒▒ ?  ?  ?  ?  ?  ?  ?  ?  ?  │ ? ?  ▒▒▒▒ ▒▒▒       from a launch that is recorded on

A gap lasts until something begins on a device that was launched after it, or a call that waits for one has ended: till
then the device may be at what was launched in the gap.
"""

from collections.abc import Mapping

import numpy as np

from drivetrain.scope.accelerator.calls import WAITING, Calls
from drivetrain.scope.accelerator.launches import Launches
from drivetrain.scope.intervals import Intervals, Ints
from drivetrain.scope.trace.gpu import OVERHEAD, SWITCHED_OFF, SWITCHED_ON, GpuTrace


def switched_off(calls: Calls, end_ns: int) -> dict[int, Intervals]:
    """Per process when it recorded no calls but those that wait; what is open when it ends lasts until `end_ns`."""
    api = calls.api
    found: dict[int, Intervals] = {}
    for process in np.unique(api.process[_switches(calls, SWITCHED_OFF)]).tolist():
        own = api.process == process
        off = np.sort(api.begin_ns[own & _switches(calls, SWITCHED_OFF)])
        on = np.sort(api.end_ns[own & _switches(calls, SWITCHED_ON)])
        found[process] = Intervals(off, np.append(on, end_ns)[np.searchsorted(on, off)]).union()
    return found


def gaps_of(gpu: GpuTrace, calls: Calls, launches: Launches, end_ns: int) -> dict[int, Intervals]:
    """Per process when it is not known what its devices did, a union.

    Args:
        gpu: What was recorded.
        calls: Its calls.
        launches: Which of them launched what.
        end_ns: Of the session.
    """
    api, activity = calls.api, gpu.activity
    found: dict[int, Intervals] = {}
    for process, (off, until) in switched_off(calls, end_ns).items():
        launched = (activity.process == process) & (launches.call >= 0)
        called_ns = api.begin_ns[launches.call[launched]]
        waited = (api.process == process) & (calls.time_class == WAITING)
        known = np.minimum(
            _first_after(until, called_ns, activity.begin_ns[launched]),
            _first_after(until, api.begin_ns[waited], api.end_ns[waited]),
        )
        none = known == np.iinfo(np.int64).max
        found[process] = Intervals(off, np.where(none, until, np.minimum(known, end_ns))).union()
    return found


def _switches(calls: Calls, detail: int) -> Ints:
    return (calls.api.kind == OVERHEAD) & (calls.api.detail == detail)


def _first_after(times_ns: Ints, begun_ns: Ints, then_ns: Ints) -> Ints:
    """For each time the earliest `then` of all that had not begun before it; the largest integer for none."""
    order = np.argsort(begun_ns, kind="stable")
    earliest = np.append(np.minimum.accumulate(then_ns[order][::-1])[::-1], np.iinfo(np.int64).max)
    return earliest[np.searchsorted(begun_ns[order], times_ns, side="left")]


def of_any(gaps: Mapping[int, Intervals]) -> Intervals:
    """When some process has a gap; a union."""
    nothing = Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))
    every = [nothing, *gaps.values()]
    return Intervals(*(np.concatenate([gap[side] for gap in every]) for side in (0, 1))).union()
