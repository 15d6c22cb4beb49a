"""What the calibration counts of a thread's calls: the outermost ones, by kind."""

from collections.abc import Sequence

import numpy as np

from drivetrain.scope.accelerator.calls import RECORDING, Calls
from drivetrain.scope.calibration.device_calls import KINDS, WAIT, DeviceCalls
from drivetrain.scope.intervals import Intervals, Ints
from drivetrain.scope.trace.gpu import DRIVER, RUNTIME


def device_calls(calls: Calls, rows: Ints, names: Sequence[str]) -> DeviceCalls:
    """What the calibration counts of a thread's calls.

    Args:
        calls: Of the trace.
        rows: The thread's, in order of their begin.
        names: Those of the trace.
    """
    api = calls.api
    recorded = rows[calls.time_class[rows] == RECORDING]
    rows = rows[(api.kind[rows] == RUNTIME) | (api.kind[rows] == DRIVER)]
    until = np.maximum.accumulate(api.end_ns[rows]) if len(rows) else np.zeros(0, np.int64)
    outermost = np.ones(len(rows), np.bool_)
    outermost[1:] = api.begin_ns[rows[1:]] >= until[:-1]
    rows = rows[outermost]
    kind_of_name = np.array([_kind(name) for name in names], np.int64)
    return DeviceCalls(
        api.begin_ns[rows],
        api.end_ns[rows],
        kind_of_name[api.name[rows]] if len(rows) else np.zeros(0, np.int64),
        Intervals(api.begin_ns[recorded], api.end_ns[recorded]).union(),
    )


def _kind(name: str) -> int:
    """Of calls of this name, as index into KINDS."""
    if "Synchronize" in name:
        return WAIT
    copies = "Memcpy" in name or "Memset" in name
    return KINDS.index("launch" if "Launch" in name else "copy" if copies else "other")
