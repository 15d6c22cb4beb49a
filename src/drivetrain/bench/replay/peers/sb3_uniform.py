"""Stable-Baselines3's ReplayBuffer: uniform, it has no prioritized one.

Settings: on the CPU; 64 environments in one buffer of 64, one environment in a buffer of its own.
Shared frames are `optimize_memory_usage=True`, which stores each stack once, not each image; it
excludes time limits told apart from terminations.

Left out: priorities and importance weights. It takes part where rows are inserted and drawn.
"""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer

from drivetrain.bench.replay.layouts import Layout, Step
from drivetrain.bench.replay.peers.entry import FILL_ENVS, Offer, serve
from drivetrain.bench.replay.store import Inserter, Updater
from drivetrain.bench.serving import NotOffered


def make_buffer(layout: Layout, capacity: int, num_envs: int) -> ReplayBuffer:
    """A buffer of so many rows in all."""
    if layout.action_shape:
        action: spaces.Space[Any] = spaces.Box(-1.0, 1.0, layout.action_shape, np.float32)
    else:
        action = spaces.Discrete(2)
    return ReplayBuffer(
        capacity,
        spaces.Box(0, 255, layout.obs_shape, np.dtype(layout.obs_dtype).type),
        action,
        device="cpu",
        n_envs=num_envs,
        optimize_memory_usage=layout.shared,
        handle_timeout_termination=not layout.shared,
    )


class Sb3Store:
    """The buffer of many environments, and beside it one of a single environment once asked for."""

    def __init__(self, layout: Layout, capacity: int) -> None:
        self.layout, self.capacity = layout, capacity
        self.many = make_buffer(layout, capacity, FILL_ENVS)

    def inserter(self, num_envs: int) -> Inserter:
        """Steps as arguments of `add`."""
        if num_envs == FILL_ENVS:
            return Inserter(as_arguments, lambda prepared: self.many.add(*prepared))
        single = make_buffer(self.layout, self.capacity, num_envs)
        single.observations.fill(1)  # so that its memory is there, as in a full buffer
        if not self.layout.shared:
            single.next_observations.fill(1)
        return Inserter(as_arguments, lambda prepared: single.add(*prepared))

    def sampler(self, batch_size: int) -> Callable[[], Any]:
        """A tuple of tensors."""
        return lambda: self.many.sample(batch_size)

    def updater(self, batch_size: int) -> Updater:
        """There are no priorities."""
        raise NotOffered("uniform: it has no priorities")


def as_arguments(step: Step) -> tuple[Any, ...]:
    """Observation, next one, action, reward, done, and an info for each environment."""
    done = step["terminated"] | step["truncated"]
    infos = [{"TimeLimit.truncated": bool(truncated)} for truncated in step["truncated"]]
    return step["obs"], step["next_obs"], step["action"], step["reward"], done.astype(np.float32), infos


if __name__ == "__main__":
    serve(Offer(Sb3Store))
