"""Prioritized and uniform replay in shared memory: `Replay`, its `Writer`, its `Sample`.

Stands between actors, who write, and learners, who sample and send priorities back. Needs NumPy
only; imports no framework.
"""

from drivetrain.replay._native import simd_level
from drivetrain.replay.buffer import Replay, ReplayHandle, memory_report
from drivetrain.replay.hindsight import HindsightWriter
from drivetrain.replay.memory import MemoryReport
from drivetrain.replay.queries import PriorityStats
from drivetrain.replay.sample import Sample, joined_frames
from drivetrain.replay.sequences import Sequences
from drivetrain.replay.spaces import spec_of
from drivetrain.replay.writer import Writer

__all__ = [
    "HindsightWriter",
    "MemoryReport",
    "PriorityStats",
    "Replay",
    "ReplayHandle",
    "Sample",
    "Sequences",
    "Writer",
    "joined_frames",
    "memory_report",
    "simd_level",
    "spec_of",
]
