"""Prioritized and uniform replay in shared memory: `Replay`, its `Writer`, its `Sample`.

Stands between actors, who write, and learners, who sample and send priorities back. Needs NumPy
only; imports no framework.
"""

from drivetrain.replay._native import simd_level
from drivetrain.replay.buffer import Replay, ReplayHandle, Sample, Writer, memory_report
from drivetrain.replay.memory import MemoryReport
from drivetrain.replay.queries import PriorityStats
from drivetrain.replay.sequences import Sequences

__all__ = [
    "MemoryReport",
    "PriorityStats",
    "Replay",
    "ReplayHandle",
    "Sample",
    "Sequences",
    "Writer",
    "memory_report",
    "simd_level",
]
