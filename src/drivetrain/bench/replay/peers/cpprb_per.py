"""cpprb's PrioritizedReplayBuffer.

Settings: `next_obs` as a field of its own, because `next_of="obs"` was slower both ways where we
tried it; for shared frames `stack_compress="obs"` with `next_of="obs"`, its documented form, which
wants the stack on the last axis and takes one environment per buffer. `check_for_update` stays off,
as by default. It has no documented way to reuse the arrays of a sample.

Several processes: `MPPrioritizedReplayBuffer`, handed to forked processes as in its documentation.

Left out: its samples have one flag `done`; an update does not notice that a row was overwritten.
Its tree is reachable only through a buffer: the tree alone is a buffer of one byte per row, so the
look-up there includes importance weights and that byte.
"""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from collections.abc import Callable
from typing import Any

import numpy as np
from cpprb import MPPrioritizedReplayBuffer, PrioritizedReplayBuffer

from drivetrain.bench.replay.layouts import Layout, Step, make_priorities
from drivetrain.bench.replay.operations import ALPHA, BETA
from drivetrain.bench.replay.peers.entry import Offer, serve
from drivetrain.bench.replay.store import Inserter, Sharing, Updater, as_it_is
from drivetrain.bench.serving import NotOffered


def env_dict(layout: Layout) -> dict[str, Any]:
    """The fields in cpprb's terms; with compression the next observation is derived."""
    shape = stacked_last(layout.obs_shape) if layout.shared else layout.obs_shape
    obs = {"shape": shape, "dtype": np.dtype(layout.obs_dtype)}
    fields: dict[str, Any] = {
        "obs": obs,
        "act": {"shape": layout.action_shape or 1, "dtype": np.dtype(layout.action_dtype)},
        "rew": {"dtype": np.float32},
        "done": {"dtype": np.bool_},
    }
    return fields if layout.shared else fields | {"next_obs": obs}


def stacked_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with its first axis moved to the end."""
    return (*shape[1:], shape[0])


class CpprbStore:
    """One buffer for any number of environments; with shared frames, for one."""

    def __init__(self, layout: Layout, buffer: Any) -> None:
        self.layout, self.buffer = layout, buffer

    def inserter(self, num_envs: int) -> Inserter:
        """Steps as keyword arguments; compression has to be told of the end of an episode."""
        if self.layout.shared and num_envs > 1:
            raise NotOffered("cpprb shares frames of one environment per buffer")

        def insert(prepared: tuple[dict[str, Any], bool]) -> None:
            fields, ended = prepared
            self.buffer.add(**fields)
            if ended:
                self.buffer.on_episode_end()

        return Inserter(self.prepare, insert)

    def prepare(self, step: Step) -> tuple[dict[str, Any], bool]:
        """Cpprb's names and shapes, and whether the only environment's episode ends here."""
        obs, next_obs = step["obs"], step["next_obs"]
        if self.layout.shared:
            obs, next_obs = (np.ascontiguousarray(np.moveaxis(o, 1, -1)) for o in (obs, next_obs))
        done = step["terminated"] | step["truncated"]
        fields = {
            "obs": obs,
            "act": step["action"].reshape(len(done), -1),
            "rew": step["reward"][:, None],
            "done": done[:, None],
            "next_obs": next_obs,
        }
        return fields, self.layout.shared and bool(done[0])

    def sampler(self, batch_size: int) -> Callable[[], Any]:
        """A dict of arrays with "weights" and "indexes"."""
        return lambda: self.buffer.sample(batch_size, beta=BETA)

    def updater(self, batch_size: int) -> Updater:
        """By index, in its own single precision."""
        update = self.buffer.update_priorities
        return Updater(as_it_is, lambda sample, new: update(sample["indexes"], new))


def make_store(layout: Layout, capacity: int) -> CpprbStore:
    """A buffer of this process's own."""
    sharing = {"stack_compress": "obs", "next_of": "obs"} if layout.shared else {}
    return CpprbStore(layout, PrioritizedReplayBuffer(capacity, env_dict(layout), alpha=ALPHA, **sharing))


class CpprbCompany:
    """MPPrioritizedReplayBuffer, for processes that are forked after it was made."""

    def __init__(self, layout: Layout, capacity: int) -> None:
        self.store = CpprbStore(layout, MPPrioritizedReplayBuffer(capacity, env_dict(layout), alpha=ALPHA))

    def view(self) -> CpprbStore:
        """For filling it; a second thread is not provided for."""
        return self.store

    def invitation(self) -> CpprbStore:
        """The buffer: a forked process has it already."""
        return self.store


class CpprbTree:
    """The leanest buffer there is around its tree."""

    def __init__(self, leaves: int) -> None:
        self.leaves = leaves
        self.rng = np.random.default_rng(0)
        self.buffer = PrioritizedReplayBuffer(leaves, {"byte": {"dtype": np.uint8}}, alpha=ALPHA)
        self.buffer.add(byte=np.zeros((leaves, 1), np.uint8))
        self.buffer.update_priorities(np.arange(leaves, dtype=np.uint64), make_priorities(self.rng, leaves))

    def finder(self, batch_size: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
        """It draws its masses itself."""
        return lambda: None, lambda _: self.buffer.sample(batch_size, beta=BETA)

    def setter(self, batch_size: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
        """The exponent is taken inside."""

        def prepare() -> tuple[Any, Any]:
            return self.rng.integers(0, self.leaves, batch_size, np.uint64), make_priorities(self.rng, batch_size)

        return prepare, lambda pair: self.buffer.update_priorities(*pair)


if __name__ == "__main__":
    serve(Offer(make_store, CpprbTree, Sharing(CpprbCompany, as_it_is, start="fork", threads=False)))
