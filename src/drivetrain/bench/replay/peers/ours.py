"""Ours: `drivetrain.replay.Replay`, at its defaults; with shared frames, stacks are believed and joined.

Every sample brings fresh arrays (no `out=`), with `next_obs`, both endings, discount, weights and
keys; a key carries its row's generation, and an update of a row that was overwritten is skipped.
With shared frames, the stacks of an episode are believed to follow each other (`check_obs=False`), as Tianshou and
Flashbax believe it and cpprb does not ask, and obs and next_obs are two views of five frames per row (`join_stacks`).
What the defaults take, which compare stacks and sample two arrays, is measured beside it as "ours, by default". Where
everybody may use all cores, ours has a thread for each to copy a sample.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.bench.replay.layouts import NUM_FRAMES, Layout, make_priorities
from drivetrain.bench.replay.operations import ALPHA, BETA
from drivetrain.bench.replay.peers.entry import Offer, serve
from drivetrain.bench.replay.store import Inserter, Sharing, Updater, as_it_is
from drivetrain.core.machine import num_cores
from drivetrain.replay import Replay, ReplayHandle, Sample
from drivetrain.replay._native import Tree


def make_replay(layout: Layout, capacity: int, *, shared: bool = False) -> Replay:
    """A prioritized replay for the layout."""
    settings: dict[str, Any] = {"frame_stack": NUM_FRAMES} if layout.shared else {}
    spec = {"obs": (layout.obs_shape, layout.obs_dtype), "action": (layout.action_shape, layout.action_dtype)}
    return Replay(capacity, spec, prioritized=True, alpha=ALPHA, shared=shared, **settings)


class OurStore:
    """A replay, of this process's own or shared."""

    def __init__(
        self, replay: Replay, *, num_threads: int = 1, join_stacks: bool = True, check_obs: bool = False
    ) -> None:
        self.replay = replay
        self.num_threads = num_threads
        self.join_stacks = join_stacks
        self.check_obs = check_obs

    def inserter(self, num_envs: int) -> Inserter:
        """The step as it is: a dict of NumPy arrays."""
        add = self.replay.writer(num_envs, check_obs=self.check_obs).add

        def insert(step: dict[str, Any]) -> None:
            add(**step)

        return Inserter(as_it_is, insert)

    def sampler(self, batch_size: int) -> Callable[[], Any]:
        """Stratified, as by default; without stacks of frames, joining them is nothing."""
        sample, num_threads, join_stacks = self.replay.sample, self.num_threads, self.join_stacks
        return lambda: sample(batch_size, beta=BETA, num_threads=num_threads, join_stacks=join_stacks)

    def updater(self, batch_size: int) -> Updater:
        """By the keys of the sample."""
        update_priorities = self.replay.update_priorities

        def update(sample: Sample, priorities: NDArray[np.float32]) -> None:
            update_priorities(sample.keys, priorities)

        return Updater(as_it_is, update)


class OurCompany:
    """A shared replay: one object for all threads, a handle for other processes."""

    def __init__(self, layout: Layout, capacity: int) -> None:
        self.replay = make_replay(layout, capacity, shared=True)

    def view(self) -> OurStore:
        """Writers are made per producer, the rest is shared."""
        return OurStore(self.replay)

    def invitation(self) -> ReplayHandle:
        """The handle."""
        return self.replay.handle()


def join(handle: ReplayHandle) -> OurStore:
    """The replay in another process."""
    return OurStore(Replay.attach(handle))


FORMS: Mapping[str, Mapping[str, Any]] = {
    "by default": {"join_stacks": False, "check_obs": True},
    "all cores": {"num_threads": num_cores()},
}
"""The last word of the command line -> what is set otherwise."""


def make_store(layout: Layout, capacity: int) -> OurStore:
    """A replay of this process's own."""
    return OurStore(make_replay(layout, capacity), **FORMS.get(sys.argv[-1], {}))


class OurTree:
    """The sum tree, without a replay around it."""

    def __init__(self, leaves: int) -> None:
        self.tree = Tree(leaves)
        self.leaves = leaves
        self.rng = np.random.default_rng(0)
        self.tree.update(np.arange(leaves, dtype=np.uint32), make_priorities(self.rng, leaves) ** ALPHA)

    def finder(self, batch_size: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
        """Targets are integers below the total."""
        out = np.empty(batch_size, np.uint32)

        def find(targets: NDArray[np.uint64]) -> None:
            self.tree.find(targets, out)

        return lambda: self.rng.integers(0, self.tree.total, batch_size, np.uint64), find

    def setter(self, batch_size: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
        """Leaves as they are, the exponent taken before."""

        def prepare() -> tuple[Any, Any]:
            indices = self.rng.integers(0, self.leaves, batch_size, np.uint32)
            return indices, make_priorities(self.rng, batch_size) ** np.float32(ALPHA)

        return prepare, lambda pair: self.tree.update(*pair)


if __name__ == "__main__":
    serve(Offer(make_store, OurTree, Sharing(OurCompany, join)))
