"""What of a run is normalised, and how: (x - mean) / deviation, cut off at +-10."""

import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Arrays, Categories, Image, Interface, Vector, entries_of

CLIP = 10.0
"""Largest size of what is normalised."""
_WORDS: dict[type, str] = {Image: "images", Categories: "categories", Vector: "bytes"}
EPSILON = 1e-8
"""Added to variances, against division by 0."""


@dataclass(frozen=True, kw_only=True)
class Normalization:
    """What of a run is normalised. Its numbers stand in columns: the entries' one after the other, then the return.

    The formula, its limits of 10 and its 1e-8 are those of Stable-Baselines3's VecNormalize.
    """

    entries: tuple[tuple[str, tuple[int, ...]], ...]
    """(name, shape) of the entries of an observation that are; empty where observations stay as they are."""
    rewards: bool
    """Whether rewards are."""
    gamma: float
    """Discount of the returns by whose deviation rewards are divided."""

    @classmethod
    def of(cls, config: TrainConfig, interface: Interface) -> "Normalization":
        """What a run asks for.

        Raises:
            InvalidInput: Observations are to be normalised, and none are real numbers.
        """
        entries: tuple[tuple[str, tuple[int, ...]], ...] = ()
        if config.environment.normalize_observations:
            entries = _real(interface)
            if not entries:
                kinds = sorted({_WORDS[type(entry)] for entry in entries_of(interface.observations).values()})
                raise InvalidInput(
                    f"normalize_observations: environment {config.env!r} shows no numbers that could be, but "
                    f"{' and '.join(kinds)}, which stay as they are; leave it out"
                )
        return cls(entries=entries, rewards=config.environment.normalize_rewards, gamma=config.gamma)

    @property
    def num_inputs(self) -> int:
        """Numbers of an observation that are normalised."""
        return sum(math.prod(shape) for _, shape in self.entries)

    @property
    def num_columns(self) -> int:
        """Numbers whose moments are kept; 0 where nothing is normalised."""
        return self.num_inputs + self.rewards

    @property
    def num_parameters(self) -> int:
        """What acting takes besides weights: mean and inverse deviation of each number."""
        return 2 * self.num_inputs

    @property
    def nothing_known(self) -> NDArray[np.float32]:
        """The parameters before anything was seen, which leave observations up to the limit as they are."""
        return np.repeat(np.array([0, 1], np.float32), self.num_inputs)

    def gather(self, obs: Arrays, columns: NDArray[np.float64]) -> None:
        """Write the numbers of observations [num_envs, *shape] that are normalised into their columns."""
        start = 0
        for name, shape in self.entries:
            array = obs[name] if isinstance(obs, dict) else obs
            end = start + math.prod(shape)
            columns[:, start:end] = array.reshape(len(array), -1)
            start = end

    def observations(self, obs: Arrays, parameters: NDArray[np.float32], xp: ModuleType = np) -> Arrays:
        """Observations [..., *shape] as the network takes them: new arrays, or the same where nothing is normalised.

        Args:
            obs: As stored.
            parameters: float32[num_parameters], all means and then all inverse deviations.
            xp: The array module of both: `numpy` or `jax.numpy`.
        """
        found = dict(obs) if isinstance(obs, dict) else {"": obs}
        start = 0
        for name, shape in self.entries:
            end = start + math.prod(shape)
            mean, inverse = (row[start:end].reshape(shape) for row in parameters.reshape(2, -1))
            scaled = (found[name] - mean) * inverse
            found[name] = xp.clip(scaled, -CLIP, CLIP)
            start = end
        return found if isinstance(obs, dict) else found[""]


def _real(interface: Interface) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple(
        (name, entry.shape)
        for name, entry in entries_of(interface.observations).items()
        if isinstance(entry, Vector) and entry.dtype == "float32"
    )
