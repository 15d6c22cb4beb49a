"""TorchRL's PrioritizedReplayBuffer over a LazyTensorStorage.

Settings: of its two prioritized buffers the plain one, which was faster here than
TensorDictPrioritizedReplayBuffer; memory in place of LazyMemmapStorage, which was slower; flat
TensorDicts; the batch size given at construction, as its documentation prefers; no prefetching, so
that a call's time is its own. `extend` for many environments, `add` for one.

Left out: its samples have one flag `done`; updates do not notice that a row was overwritten.

Its wheels are tied to one version of torch. Those of 0.14 want symbols that torch 2.13 has not, for
custom autograd functions that no replay uses: the extension is loaded with lazy binding, so that
its trees work. Where that fails too, this file ends with the loader's words, and is skipped by them.
"""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false
# ruff: noqa: E402 - the loader has to be told first

import os
import sys
from collections.abc import Callable
from typing import Any

sys.setdlopenflags(os.RTLD_LAZY)  # before torchrl is imported, see above

import numpy as np
import torch
from tensordict import TensorDict
from torchrl._torchrl import SumSegmentTreeFp32
from torchrl.data import LazyTensorStorage, PrioritizedReplayBuffer

from drivetrain.bench.replay.layouts import Layout, Step, make_priorities
from drivetrain.bench.replay.operations import ALPHA, BETA
from drivetrain.bench.replay.peers.entry import Offer, serve
from drivetrain.bench.replay.store import Inserter, Sharing, Updater
from drivetrain.bench.serving import NotOffered


class TorchrlStore:
    """One buffer for everybody."""

    def __init__(self, layout: Layout, capacity: int) -> None:
        if layout.shared:
            raise NotOffered("TorchRL's replay shares no frames")
        storage = LazyTensorStorage(capacity)
        self.buffer = PrioritizedReplayBuffer(alpha=ALPHA, beta=BETA, storage=storage, batch_size=256)

    def inserter(self, num_envs: int) -> Inserter:
        """Steps as TensorDicts."""
        if num_envs == 1:
            return Inserter(lambda step: as_tensors(step)[0], self.buffer.add)
        return Inserter(as_tensors, self.buffer.extend)

    def sampler(self, batch_size: int) -> Callable[[], Any]:
        """A TensorDict, and a dict with "index" and "priority_weight"."""
        if batch_size == 256:
            return lambda: self.buffer.sample(return_info=True)
        return lambda: self.buffer.sample(batch_size, return_info=True)

    def updater(self, batch_size: int) -> Updater:
        """By index."""
        update = self.buffer.update_priority
        return Updater(torch.from_numpy, lambda sample, new: update(sample[1]["index"], new))


class TorchrlCompany:
    """One buffer, whose calls lock each other out; its prioritized sampler cannot cross processes."""

    def __init__(self, layout: Layout, capacity: int) -> None:
        self.store = TorchrlStore(layout, capacity)

    def view(self) -> TorchrlStore:
        """The buffer itself."""
        return self.store

    def invitation(self) -> Any:
        """None there is."""
        raise NotOffered("its prioritized sampler cannot cross processes")


def join(invitation: Any) -> TorchrlStore:
    """There are no invitations."""
    raise NotOffered("its prioritized sampler cannot cross processes")


def as_tensors(step: Step) -> TensorDict:
    """A step as a flat TensorDict."""
    names = ("obs", "action", "reward", "next_obs")
    fields = {name: torch.from_numpy(np.ascontiguousarray(step[name])) for name in names}
    done = torch.from_numpy(step["terminated"] | step["truncated"])
    return TensorDict(fields | {"done": done}, batch_size=[len(done)])


class TorchrlTree:
    """SumSegmentTreeFp32, the one its sampler uses by default."""

    def __init__(self, leaves: int) -> None:
        self.leaves = leaves
        self.rng = np.random.default_rng(0)
        self.tree = SumSegmentTreeFp32(leaves)
        self.tree[torch.arange(leaves)] = torch.from_numpy(make_priorities(self.rng, leaves) ** np.float32(ALPHA))

    def finder(self, batch_size: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
        """Masses below the total."""

        def prepare() -> Any:
            total = self.tree.query(0, self.leaves)
            return torch.from_numpy(self.rng.random(batch_size, np.float32)) * total

        return prepare, self.tree.scan_lower_bound

    def setter(self, batch_size: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
        """Leaves as they are, the exponent taken before."""

        def prepare() -> tuple[Any, Any]:
            indices = torch.from_numpy(self.rng.integers(0, self.leaves, batch_size))
            return indices, torch.from_numpy(make_priorities(self.rng, batch_size) ** np.float32(ALPHA))

        return prepare, lambda pair: self.tree.__setitem__(*pair)


if __name__ == "__main__":
    serve(Offer(TorchrlStore, TorchrlTree, Sharing(TorchrlCompany, join)))
