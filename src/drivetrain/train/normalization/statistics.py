"""What the learner normalises by: the moments of all environments, and what follows from them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Arrays, Interface
from drivetrain.train.normalization.moments import empty_table, merged, of_as_many
from drivetrain.train.normalization.scaling import CLIP, EPSILON, Normalization

_KEY = "moments"


class Statistics:
    """The learner's knowledge of observations and returns; where nothing is normalised, all stays as it is.

    Args:
        config: The run's.
        interface: What the environments look like.
    """

    def __init__(self, config: TrainConfig, interface: Interface) -> None:
        self._normalization = normalization = Normalization.of(config, interface)
        self.table = empty_table(config.num_envs, normalization.num_columns)
        """The moments of every environment, see `moments`."""
        self.parameters: NDArray[np.float32] = normalization.nothing_known
        """What observations are normalised by, published after the weights."""
        self._reward_scale = np.float32(1)
        self.is_empty = True
        """Whether nothing has been seen yet."""

    def take(self, table: NDArray[np.float64]) -> None:
        """Normalise by what the environments have shown so far: float64[num_envs, 1 + 2 W]."""
        self.table = table.copy()
        whole = merged(table)
        inverse = 1 / np.sqrt(whole.variance + EPSILON)
        num_inputs = self._normalization.num_inputs
        self.is_empty = whole.num_seen == 0
        if not self.is_empty:
            self.parameters = np.concatenate([whole.mean[:num_inputs], inverse[:num_inputs]]).astype(np.float32)
            self._reward_scale = np.float32(inverse[-1] if self._normalization.rewards else 1)

    def observations(self, obs: Any, parameters: NDArray[np.float32] | None = None) -> Arrays:
        """Observations as the network takes them, by `parameters` of before where they are given."""
        return self._normalization.observations(obs, self.parameters if parameters is None else parameters)

    def rewards(self, rewards: NDArray[np.float32], num_steps: int = 1) -> NDArray[np.float32]:
        """Rewards, or returns of so many steps, in units of the deviation of discounted returns.

        Each is cut off at the limit for one reward; a return at what so many such rewards come to.
        """
        if not self._normalization.rewards:
            return rewards
        limit = np.float32(CLIP * sum(self._normalization.gamma**step for step in range(num_steps)))
        return np.clip(rewards * self._reward_scale, -limit, limit)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint holds of it."""
        return {_KEY: self.table.copy()} if self._normalization.num_columns else {}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `arrays` gave."""
        if self._normalization.num_columns:
            self.take(of_as_many(arrays[_KEY], len(self.table)))
