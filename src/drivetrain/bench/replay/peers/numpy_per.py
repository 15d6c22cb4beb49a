"""A vectorised NumPy replay, written for this bench: what one gets without a library.

The tree has 8 children per node and no loop over the batch. Of what we tried (a cumulative sum of
all leaves; binary trees level by level; 8, 16, 32 and 64 children; prefix sums by `cumsum` or by a
product with a triangle of ones) this was the fastest at 2^17 and 2^20 taken over sampling and
updating. It is stratified, and its sums are recomputed from their children, so they do not drift.

Left out: one flag `done`; no lock, and no check that an updated row is still the one sampled.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.bench.replay.layouts import Layout, Step, make_priorities
from drivetrain.bench.replay.operations import ALPHA, BETA
from drivetrain.bench.replay.peers.entry import Offer, serve
from drivetrain.bench.replay.store import Inserter, Updater, as_it_is
from drivetrain.bench.serving import NotOffered

FANOUT = 8
MOST_ON_TOP = 2048  # sums that are searched by one cumulative sum
EPSILON = 1e-6

Indices = NDArray[np.int64]
Reals = NDArray[np.floating[Any]]


class NumpyTree:
    """Sums of 8, of 64, ... until few are left; searched and updated a whole batch at a time."""

    def __init__(self, leaves: int) -> None:
        counts = [leaves]
        while counts[-1] > MOST_ON_TOP:
            counts.append(-(-counts[-1] // FANOUT))
        sizes = [FANOUT * above for above in counts[1:]] + counts[-1:]
        self.levels = [np.zeros(size) for size in sizes]  # leaves first
        self.nodes = [level.reshape(-1, FANOUT) for level in self.levels[:-1]]
        self.triangle = np.triu(np.ones((FANOUT, FANOUT)))  # a product with it is a prefix sum

    def update(self, indices: Indices, values: Reals) -> None:
        """Set leaves; where an index occurs twice, the last value counts."""
        self.levels[0][indices] = values
        for nodes, above in zip(self.nodes, self.levels[1:], strict=True):
            indices = indices // FANOUT
            above[indices] = nodes[indices].sum(axis=1)  # the same sum twice where parents coincide

    def total(self) -> float:
        """Sum of all leaves."""
        return float(self.levels[-1].sum())

    def find(self, masses: Reals) -> Indices:
        """For each mass in [0, total): the leaf it falls into."""
        ends = np.cumsum(self.levels[-1])
        node = np.minimum(ends.searchsorted(masses, side="right"), len(ends) - 1)
        masses = masses - (ends - self.levels[-1])[node]
        rows = FANOUT * np.arange(len(masses))
        for nodes in reversed(self.nodes):
            children = nodes.take(node, axis=0)
            sums: Reals = children @ self.triangle
            beyond: NDArray[np.bool_] = sums > masses[:, None]
            beyond[:, -1] = True  # whatever rounding says
            child: Indices = beyond.argmax(axis=1)
            masses = masses - (sums.take(rows + child) - children.take(rows + child))
            node = node * FANOUT + child
        return node


class NumpyStore:
    """One array per field, and the tree."""

    def __init__(self, layout: Layout, capacity: int) -> None:
        if layout.shared:
            raise NotOffered("written without sharing frames")
        self.capacity, self.size, self.next = capacity, 0, 0
        self.rng = np.random.default_rng(0)
        self.tree, self.largest = NumpyTree(capacity), 1.0
        self.fields: dict[str, NDArray[Any]] = {}

    def inserter(self, num_envs: int) -> Inserter:
        """Steps as a dict of arrays."""
        return Inserter(with_done, self.insert)

    def insert(self, step: dict[str, NDArray[Any]]) -> None:
        """Write rows after the newest one, with the largest leaf there was."""
        count = len(step["done"])
        if not self.fields:
            self.fields = {name: np.zeros((self.capacity, *a.shape[1:]), a.dtype) for name, a in step.items()}
        if self.next + count <= self.capacity:
            where: Any = slice(self.next, self.next + count)
            rows = np.arange(self.next, self.next + count)
        else:
            where = rows = (self.next + np.arange(count)) % self.capacity
        for name, array in step.items():
            self.fields[name][where] = array
        self.tree.update(rows, np.full(count, self.largest))
        self.next = (self.next + count) % self.capacity
        self.size = min(self.size + count, self.capacity)

    def sampler(self, batch_size: int) -> Callable[[], Any]:
        """Stratified; the fields, the weights and the rows."""
        strata = np.arange(batch_size)

        def sample() -> Any:
            masses = (strata + self.rng.random(batch_size)) * (self.tree.total() / batch_size)
            rows = self.tree.find(masses)
            leaves = self.tree.levels[0][rows]
            weights = (leaves / leaves.min()) ** -BETA
            return {name: field.take(rows, axis=0) for name, field in self.fields.items()}, weights, rows

        return sample

    def updater(self, batch_size: int) -> Updater:
        """By row."""

        def update(sample: Any, priorities: NDArray[np.float32]) -> None:
            leaves = (priorities + EPSILON) ** ALPHA
            self.largest = max(self.largest, float(leaves.max()))
            self.tree.update(sample[2], leaves)

        return Updater(as_it_is, update)


def with_done(step: Step) -> dict[str, NDArray[Any]]:
    """A step with one flag in place of two."""
    fields = {name: step[name] for name in ("obs", "action", "reward", "next_obs")}
    return fields | {"done": step["terminated"] | step["truncated"]}


class NumpyTreeAlone:
    """The tree without fields around it."""

    def __init__(self, leaves: int) -> None:
        self.leaves, self.rng = leaves, np.random.default_rng(0)
        self.tree = NumpyTree(leaves)
        self.tree.update(np.arange(leaves), make_priorities(self.rng, leaves) ** ALPHA)

    def finder(self, batch_size: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
        """Masses below the total."""
        return lambda: self.rng.random(batch_size) * self.tree.total(), self.tree.find

    def setter(self, batch_size: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
        """Leaves as they are, the exponent taken before."""

        def prepare() -> tuple[Any, Any]:
            return self.rng.integers(0, self.leaves, batch_size), make_priorities(self.rng, batch_size) ** ALPHA

        return prepare, lambda pair: self.tree.update(*pair)


if __name__ == "__main__":
    serve(Offer(NumpyStore, NumpyTreeAlone))
