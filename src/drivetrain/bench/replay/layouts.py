"""What is stored: the shapes of a step, and steps of it as an environment would give them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Step = Mapping[str, NDArray[Any]]  # field -> [num_envs, ...]

NUM_FRAMES = 4  # in a stack


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The fields of a step.

    Attributes:
        name: In tables and on the command line.
        obs_shape: With `frames`, a stack: the oldest frame first.
        frames: Observations are stacks of `NUM_FRAMES` images, each step adding one.
        shared: Whoever can stores each image once, not once per stack it is in.
    """

    name: str
    obs_shape: tuple[int, ...]
    obs_dtype: str
    action_shape: tuple[int, ...]
    action_dtype: str
    frames: bool = False
    shared: bool = False


PAIRS = Layout(
    name="84x84x4 pairs",
    obs_shape=(NUM_FRAMES, 84, 84),
    obs_dtype="uint8",
    action_shape=(),
    action_dtype="int64",
    frames=True,
)
ALL = (
    Layout(name="obs 4", obs_shape=(4,), obs_dtype="float32", action_shape=(), action_dtype="int64"),
    Layout(name="obs 17", obs_shape=(17,), obs_dtype="float32", action_shape=(6,), action_dtype="float32"),
    PAIRS,
    replace(PAIRS, name="84x84x4 shared", shared=True),
    Layout(  # Hopper's, at which the paper's synchronisation benchmark runs
        name="obs 11",
        obs_shape=(11,),
        obs_dtype="float32",
        action_shape=(3,),
        action_dtype="float32",
    ),
)
LAYOUTS: Mapping[str, Layout] = {layout.name: layout for layout in ALL}


def make_steps(layout: Layout, num_envs: int, *, seed: int, num_steps: int = 64) -> list[Step]:
    """One episode of `num_steps` steps in each of `num_envs` environments, time-limited at its end.

    An observation is the next observation of the step before, as in real episodes: those who share
    observations can. Repeated from the beginning, the list is a stream of such episodes.
    """
    rng = np.random.default_rng(seed)
    observations = list(make_observations(layout, num_envs, num_steps + 1, rng))
    return [
        {
            "obs": observations[t],
            "action": numbers(rng, (num_envs, *layout.action_shape), layout.action_dtype),
            "reward": rng.normal(size=num_envs).astype(np.float32),
            "next_obs": observations[t + 1],
            "terminated": np.zeros(num_envs, bool),
            "truncated": np.full(num_envs, t == num_steps - 1),
        }
        for t in range(num_steps)
    ]


def make_observations(layout: Layout, num_envs: int, count: int, rng: np.random.Generator) -> Iterator[NDArray[Any]]:
    """Observations [num_envs, ...] of consecutive steps."""
    if not layout.frames:
        for _ in range(count):
            yield numbers(rng, (num_envs, *layout.obs_shape), layout.obs_dtype)
        return
    depth, *image = layout.obs_shape
    frames = numbers(rng, (num_envs, count + depth - 1, *image), layout.obs_dtype)
    for t in range(count):
        yield np.ascontiguousarray(frames[:, t : t + depth])


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Random contents; integers are small, as actions and pixels are."""
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0, 256 if dtype == "uint8" else 2, size=shape, dtype=dtype)


def make_priorities(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    """|TD errors| with a heavy tail: Lomax of shape 1.5, whose variance is infinite, median 0.06."""
    return (0.1 * rng.pareto(1.5, count)).astype(np.float32)
