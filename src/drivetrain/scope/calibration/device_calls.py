"""Calls of devices' interfaces as the calibration counts them: by kind, in intervals of a time line and in blocks.

Counted are a thread's outermost calls (the runtime's call those of the driver). Where the recording is switched off
only calls that wait for a device are known (scope/cupti/layer.cpp).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.intervals import Intervals, Ints
from drivetrain.scope.trace.blocks import Blocks

Floats = NDArray[np.float64]
KINDS = ("launch", "copy", "wait", "other")
"""Of calls: kernels and graphs, copies and memory set, waiting for a device, everything else."""
WAIT = KINDS.index("wait")


@dataclass(frozen=True, eq=False)
class CallsInBlocks:
    """Of one thread's blocks."""

    num: Floats
    """[blocks, kinds]: calls that were recorded."""
    wait_ns: Ints
    """[blocks]: in calls that wait, which are known of all blocks."""
    own_ns: Floats
    """[blocks, kinds]: what the recorder says that it took of these calls ..."""
    overhead_ns: Ints
    """... and [blocks] of the thread."""


@dataclass(frozen=True, eq=False)
class DeviceCalls:
    """Of one thread, in order of their begin."""

    begin_ns: Ints
    end_ns: Ints
    kind: Ints
    """Index into KINDS."""
    overhead: Intervals
    """What the recorder says that it took of the thread; a union."""

    def in_blocks(self, blocks: Blocks) -> CallsInBlocks:
        """What the thread called in each block."""
        at = np.searchsorted(blocks.begin_ns, self.begin_ns, side="right") - 1
        inside = (at >= 0) & (self.begin_ns < np.append(blocks.end_ns, 0)[at])
        at, kind = at[inside], self.kind[inside]
        begin, end = self.begin_ns[inside], self.end_ns[inside]
        place, shape = at * len(KINDS) + kind, (len(blocks), len(KINDS))

        def summed(values: NDArray[np.generic]) -> Floats:
            return np.bincount(place, values, shape[0] * shape[1]).astype(np.float64).reshape(shape)

        before = self.overhead.before
        return CallsInBlocks(
            num=summed(np.ones(len(at))),
            wait_ns=summed(end - begin)[:, WAIT].astype(np.int64),
            own_ns=summed(before(end) - before(begin)),
            overhead_ns=before(blocks.end_ns) - before(blocks.begin_ns),
        )

    def in_intervals(self, kind: int, edge_ns: Ints) -> Floats:
        """How many of a kind began in each interval between edges."""
        begin = self.begin_ns[(self.kind == kind) & (self.begin_ns >= edge_ns[0]) & (self.begin_ns < edge_ns[-1])]
        at = np.searchsorted(edge_ns, begin, side="right") - 1
        return np.bincount(at, minlength=len(edge_ns) - 1).astype(np.float64)

    def overhead_in(self, edge_ns: Ints, first_ns: int, last_ns: int) -> Floats:
        """What the recorder says that it took of each interval, as far as that is between two times."""
        return self.overhead.within(first_ns, last_ns).between(edge_ns).astype(np.float64)
