"""What NVML says of a device beside what ran on it: the two differ, and by how much is the inflation.

NVML counts a period as used in which any kernel ran at all, however briefly; so short kernels far apart read as a busy
device (RL-Scope, Gleeson et al. 2021, arXiv:2102.04285, on nvidia-smi).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from drivetrain.scope.intervals import Intervals, Ints
from drivetrain.scope.trace.gpu import GpuReading


class Comparison(NamedTuple):
    """Over the time for which there are readings of a device."""

    num_readings: int
    utilization: float
    """NVML's, in [0, 1]; each reading counts for the time since the one before."""
    busy_share: float | None
    """Of the same time, that in which something ran; None: a single reading is no stretch of time."""
    inflation: float | None
    """The reading over that; None where nothing ran."""
    most_memory_nbytes: int


def compare(
    readings: GpuReading, device: int, busy: Intervals, clock: Callable[[Ints], Ints] = lambda times_ns: times_ns
) -> Comparison | None:
    """Readings of one device with what ran there; None where it has no readings.

    Args:
        readings: Of all devices.
        device: The one.
        busy: When something ran there, on the clock.
        clock: From the time of readings to that clock, which stands still while nothing was recorded.
    """
    mine = readings.where(readings.device == device)
    if not len(mine):
        return None
    mine = mine.where(np.argsort(mine.time_ns, kind="stable"))
    most = int(mine.memory_nbytes.max())
    times_ns = clock(mine.time_ns)
    passed = np.diff(times_ns)
    window_ns = int(passed.sum())
    if window_ns == 0:
        return Comparison(len(mine), float(mine.utilization.mean()) / 100, None, None, most)
    utilization = float(np.average(mine.utilization[1:], weights=passed)) / 100
    share = busy.within(int(times_ns[0]), int(times_ns[-1])).covered_ns / window_ns
    return Comparison(len(mine), utilization, share, utilization / share if share else None, most)
