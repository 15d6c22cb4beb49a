"""Tianshou's PrioritizedVectorReplayBuffer, and PrioritizedReplayBuffer for one environment.

Settings: 64 environments as 64 sub-buffers, which is how its collectors use it, sampled and updated
as a whole; one environment goes into a buffer of its own, filled from the other by `update`. Shared
frames are its documented Atari form: `stack_num=4, save_only_last_obs=True, ignore_obs_next=True`.

Left out: no lock and no check that an updated row is still the one sampled; draws are independent,
not stratified. Its look-up overwrites the masses it is given.
"""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from collections.abc import Callable
from typing import Any

import numpy as np
from tianshou.data import (
    Batch,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    SegmentTree,
)

from drivetrain.bench.replay.layouts import NUM_FRAMES, Layout, Step, make_priorities
from drivetrain.bench.replay.operations import ALPHA, BETA
from drivetrain.bench.replay.peers.entry import FILL_ENVS, Offer, serve
from drivetrain.bench.replay.store import Inserter, Updater, as_it_is
from drivetrain.bench.serving import NotOffered


class TianshouStore:
    """The buffer of many environments, and beside it one of a single environment once asked for."""

    def __init__(self, layout: Layout, capacity: int) -> None:
        self.capacity = capacity
        self.settings: dict[str, Any] = {"alpha": ALPHA, "beta": BETA}
        if layout.shared:
            self.settings |= {"stack_num": NUM_FRAMES, "save_only_last_obs": True, "ignore_obs_next": True}
        self.many = PrioritizedVectorReplayBuffer(capacity, FILL_ENVS, **self.settings)

    def inserter(self, num_envs: int) -> Inserter:
        """Steps as a Batch, of one environment without the leading axis."""
        if num_envs == FILL_ENVS:
            return Inserter(as_batch, self.many.add)
        if num_envs > 1:
            raise NotOffered(f"the buffer has {FILL_ENVS} environments")
        single = PrioritizedReplayBuffer(self.capacity, **self.settings)
        single.update(self.many)
        return Inserter(lambda step: as_batch({name: field[0] for name, field in step.items()}), single.add)

    def sampler(self, batch_size: int) -> Callable[[], Any]:
        """A Batch with `weight`, and the indices."""
        return lambda: self.many.sample(batch_size)

    def updater(self, batch_size: int) -> Updater:
        """By index."""
        update = self.many.update_weight
        return Updater(as_it_is, lambda sample, new: update(sample[1], new))


def as_batch(step: Step) -> Batch:
    """A step under Tianshou's names."""
    return Batch(
        obs=step["obs"],
        act=step["action"],
        rew=step["reward"],
        terminated=step["terminated"],
        truncated=step["truncated"],
        obs_next=step["next_obs"],
    )


class TianshouTree:
    """SegmentTree, compiled by Numba."""

    def __init__(self, leaves: int) -> None:
        self.leaves = leaves
        self.rng = np.random.default_rng(0)
        self.tree = SegmentTree(leaves)
        self.tree[np.arange(leaves)] = make_priorities(self.rng, leaves) ** ALPHA

    def finder(self, batch_size: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
        """Masses below the total."""
        return lambda: self.rng.random(batch_size) * self.tree.reduce(), self.tree.get_prefix_sum_idx

    def setter(self, batch_size: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
        """Leaves as they are, the exponent taken before."""

        def prepare() -> tuple[Any, Any]:
            return self.rng.integers(0, self.leaves, batch_size), make_priorities(self.rng, batch_size) ** ALPHA

        return prepare, lambda pair: self.tree.__setitem__(*pair)


if __name__ == "__main__":
    serve(Offer(TianshouStore, TianshouTree))
