"""What the networks and the replay must know of an environment; knows no Gymnasium.

    Interface
    |-- observations   Vector | Image | Categories, or Entries of these by name (dict and tuple spaces);
    |                  Entries of Embedding by who looks, where encoders are frozen
    |-- actions        DiscreteActions | MultiDiscreteActions | BoxActions
    `-- frame_stack    how many frames an observation holds

An observation travels as the replay stores it: an array, or a flat dict of arrays for `Entries`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = NDArray[Any] | dict[str, NDArray[Any]]
"""Observations of several environments: [num_envs, *shape], or a dict of such arrays by entry."""
StoredSpec = tuple[tuple[int, ...], str]
"""Shape and dtype of one item, as the replay's spec has them."""


@dataclass(frozen=True, kw_only=True)
class Vector:
    """Numbers that the network takes as they are, scaled."""

    shape: tuple[int, ...]
    """As stored."""
    dtype: str = "float32"
    """As stored."""
    scale: float = 1.0
    """What the network multiplies them by."""
    is_binary: bool = False
    """Whether each is 0 or 1, and never normalised."""

    @property
    def stored(self) -> StoredSpec:
        """Of one observation in the replay."""
        return self.shape, self.dtype


@dataclass(frozen=True, kw_only=True)
class Image:
    """A picture of bytes, for a convolutional network."""

    shape: tuple[int, ...]
    """As stored, which is as the environment gives it."""
    axes: str
    """A letter for each axis: K stacked frames (first), Height, Width, Channels."""

    @property
    def stored(self) -> StoredSpec:
        """Of one observation in the replay."""
        return self.shape, "uint8"


@dataclass(frozen=True, kw_only=True)
class Categories:
    """Choices numbered from 0, which the network sees one-hot, one after the other."""

    counts: tuple[int, ...]
    """How many values each has."""
    starts: tuple[int, ...]
    """What the environment calls value 0 of each."""

    @property
    def stored(self) -> StoredSpec:
        """Of one observation in the replay: the numbers from 0."""
        return (len(self.counts),), "int32"


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """What a frozen encoder has made of an observation; no environment shows it."""

    width: int
    """How many numbers."""

    @property
    def stored(self) -> StoredSpec:
        """Of one observation in the replay."""
        return (self.width,), "float32"


Entry = Vector | Image | Categories | Embedding
"""An observation, or one entry of a dict or tuple."""


@dataclass(frozen=True, kw_only=True)
class Entries:
    """The entries of a dict or tuple space, nested ones under names joined by a dot ("camera.left", "0")."""

    entries: tuple[tuple[str, Entry], ...]
    """(name, entry), in the order of the space."""
    paths: tuple[tuple[str | int, ...], ...]
    """The keys and positions that lead to each."""

    @property
    def stored(self) -> dict[str, StoredSpec]:
        """Of one observation in the replay."""
        return {name: entry.stored for name, entry in self.entries}


Observations = Entry | Entries
"""What an environment shows."""


@dataclass(frozen=True, kw_only=True)
class DiscreteActions:
    """Actions numbered from 0."""

    count: int
    """How many."""
    start: int
    """What the environment calls action 0."""
    dtype: str = "int64"
    """The environment's."""


@dataclass(frozen=True, kw_only=True)
class BoxActions:
    """Vectors of real numbers, each in -1..1 for the agent and in low..high for the environment."""

    low: tuple[float, ...]
    """Least value of each entry, flattened."""
    high: tuple[float, ...]
    """Largest value of each entry, flattened."""
    shape: tuple[int, ...]
    """The environment's."""
    dtype: str
    """The environment's."""


@dataclass(frozen=True, kw_only=True)
class MultiDiscreteActions:
    """Several choices at once, each numbered from 0."""

    counts: tuple[int, ...]
    """How many values each has, flattened."""
    starts: tuple[int, ...]
    """What the environment calls value 0 of each."""
    shape: tuple[int, ...]
    """The environment's."""
    dtype: str
    """The environment's."""


Actions = DiscreteActions | MultiDiscreteActions | BoxActions
"""What an agent chooses from."""


@dataclass(frozen=True, kw_only=True)
class Interface:
    """What the networks and the replay must know of an environment."""

    observations: Observations
    """What it shows."""
    actions: Actions
    """What the agent chooses from."""
    frame_stack: int = 1
    """Frames in an observation: above 1, every array of it begins with an axis of so many, newest last."""

    @property
    def num_actions(self) -> int:
        """Discrete actions, the values of all choices of multi-discrete ones, or the dimensions of continuous ones."""
        if isinstance(self.actions, DiscreteActions):
            return self.actions.count
        return sum(self.actions.counts) if isinstance(self.actions, MultiDiscreteActions) else len(self.actions.low)

    @property
    def has_images(self) -> bool:
        """Whether any entry of an observation is an image."""
        return any(isinstance(entry, Image) for entry in entries_of(self.observations).values())

    @property
    def shares_next_obs(self) -> bool:
        """Whether the replay keeps an observation once for two steps: for small rows links cost more than they save."""
        return any(isinstance(entry, Image | Embedding) for entry in entries_of(self.observations).values())

    @property
    def stored_action(self) -> StoredSpec:
        """Of one action in the replay: int64 from 0, or float32 in -1..1."""
        if isinstance(self.actions, DiscreteActions):
            return (), "int64"
        if isinstance(self.actions, MultiDiscreteActions):
            return (len(self.actions.counts),), "int64"
        return (self.num_actions,), "float32"

    @property
    def learned_action_dtype(self) -> str:
        """Of actions in the learner, whose integers have 32 bits."""
        return "float32" if isinstance(self.actions, BoxActions) else "int32"

    def zero_observations(self, *lead: int) -> Arrays:
        """Arrays [*lead, *shape] that hold observations."""
        return zeros(self.observations, *lead)

    def zero_actions(self, *lead: int) -> NDArray[Any]:
        """An array [*lead, *shape] that holds actions for the learner."""
        return np.zeros((*lead, *self.stored_action[0]), self.learned_action_dtype)


def zeros(observations: Observations, *lead: int) -> Arrays:
    """Arrays [*lead, *shape] that hold observations."""
    stored = observations.stored
    if isinstance(stored, dict):
        return {name: np.zeros((*lead, *shape), dtype) for name, (shape, dtype) in stored.items()}
    shape, dtype = stored
    return np.zeros((*lead, *shape), dtype)


def entries_of(observations: Observations) -> dict[str, Entry]:
    """All entries by name; an observation that is no dict or tuple is one under the name ""."""
    return dict(observations.entries) if isinstance(observations, Entries) else {"": observations}


def set_row(arrays: Arrays, index: Any, observation: Arrays) -> None:
    """Write one environment's observation into its row; or several, by any of NumPy's indices."""
    if isinstance(arrays, dict):
        assert isinstance(observation, dict)
        for name, array in arrays.items():
            array[index] = observation[name]
    else:
        arrays[index] = observation


def rows_of(arrays: Arrays, which: Any) -> Any:
    """Some rows, or one, by any of NumPy's indices; None: all of it as the one row of a batch."""
    if isinstance(arrays, dict):
        return {name: array[which] for name, array in arrays.items()}
    return arrays[which]


def first_rows(arrays: Arrays, count: int) -> Any:
    """Views of the first `count` rows."""
    return rows_of(arrays, slice(count))


def one_row(arrays: Arrays, index: int) -> Any:
    """A view of one row, with a leading axis of 1."""
    return rows_of(arrays, slice(index, index + 1))


def num_rows(arrays: Arrays) -> int:
    """Environments in a batch of observations."""
    return len(next(iter(arrays.values())) if isinstance(arrays, dict) else arrays)
