"""The floor under every sample: the same bytes, copied from random rows, and nothing else.

No contender. Row numbers are given, drawn in proportion to priorities like those of the contenders before anything
is timed: drawing them between the calls, by a search through all priorities, would take the caches from the rows. The
rows are as far apart as ours, and what a row uses of its bytes is copied to one contiguous output that is reused. For
shared frames it copies the frames of both stacks once, as ours does.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.bench.replay.layouts import NUM_FRAMES, Layout, make_priorities
from drivetrain.bench.replay.operations import ALPHA
from drivetrain.bench.replay.peers.entry import Offer, serve
from drivetrain.bench.replay.store import Inserter, Updater, as_it_is
from drivetrain.bench.replay.timing import Operation
from drivetrain.bench.serving import NotOffered
from drivetrain.replay._native import copy_rows
from drivetrain.replay.schema import Schema

LINE = 64  # bytes of a cache line
NUM_DRAWN = 2**22  # row numbers of an operation, in batches that go round: more than there are rows in any cache


class FloorStore:
    """Rows of random bytes, and the cumulative priorities to choose them by."""

    def __init__(self, layout: Layout, capacity: int) -> None:
        spec = {"obs": (layout.obs_shape, layout.obs_dtype), "action": (layout.action_shape, layout.action_dtype)}
        schema = Schema.from_spec(spec)
        self.stride = schema.row_stride
        self.nbytes = sum(field.nbytes for field in schema.fields)
        if layout.shared:  # two stacks of one frame's distance
            self.stride = int(np.prod(layout.obs_shape)) // NUM_FRAMES
            self.nbytes = (NUM_FRAMES + 1) * self.stride
        length = (capacity + 1) * self.stride + self.nbytes
        self.rng = np.random.default_rng(0)
        memory = np.resize(self.rng.integers(0, 256, 2**20, np.uint8), length + LINE)
        self.rows = memory[-memory.ctypes.data % LINE :][:length]  # in as few lines as ours, not one more
        self.ends = np.cumsum(make_priorities(self.rng, capacity).astype(np.float64) ** ALPHA)

    def inserter(self, num_envs: int) -> Inserter:
        """The rows are there from the beginning."""
        return Inserter(as_it_is, as_it_is)

    def sampler(self, batch_size: int) -> Callable[[], Any]:
        """Needs row numbers; see `operation`."""
        raise NotOffered("takes row numbers")

    def updater(self, batch_size: int) -> Updater:
        """Nothing to update."""
        raise NotOffered("a bare copy")

    def operation(self, name: str) -> Operation:
        """Copying of given rows."""
        kind, _, size = name.partition(" ")
        if kind != "sample":
            raise NotOffered("a bare copy")
        out = np.empty(int(size) * self.nbytes, np.uint8)
        batches = itertools.cycle([self.row_numbers(int(size)) for _ in range(NUM_DRAWN // int(size))])

        def copy(indices: NDArray[np.uint32]) -> None:
            copy_rows(self.rows, self.stride, self.nbytes, indices, out)

        return Operation(lambda calls: [(indices,) for indices in itertools.islice(batches, calls)], copy)

    def row_numbers(self, batch_size: int) -> NDArray[np.uint32]:
        """Stratified, as ours are."""
        masses: NDArray[np.float64] = (np.arange(batch_size) + self.rng.random(batch_size)) * (
            self.ends[-1] / batch_size
        )
        return self.ends[:-1].searchsorted(masses, side="right").astype(np.uint32)


if __name__ == "__main__":
    serve(Offer(FloorStore, operation_of=lambda store, _, name: store.operation(name)))
