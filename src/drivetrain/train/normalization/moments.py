"""Count, mean and sum of squared deviations of what each environment has shown, and of all of them as one.

table float64[num_envs, 1 + 2 W]:   count | mean of W columns | sum of squared deviations of W columns
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.train.interface import Arrays
from drivetrain.train.normalization.scaling import Normalization


class Moments:
    """The moments of an actor's environments, each by itself.

    So those of all environments do not depend on how actors share them. Counted are the observations
    that were acted on, and at every step the discounted return of the episode so far, sum gamma^k r_(t-k).

    Args:
        normalization: What is counted.
        num_envs: The actor's environments.
    """

    def __init__(self, normalization: Normalization, num_envs: int) -> None:
        self._normalization = normalization
        self._values = np.zeros((num_envs, normalization.num_columns))
        self._returns = np.zeros(num_envs)
        self.table = empty_table(num_envs, normalization.num_columns)
        """float64[num_envs, 1 + 2 W], see the module."""

    def add(self, obs: Arrays, rewards: NDArray[Any], ended: NDArray[np.bool_]) -> None:
        """One step of the first environments, [num_envs, ...] each.

        Args:
            obs: What was acted on.
            rewards: What came of it, as it is learned from.
            ended: Whether an episode ended with it.

        Reference: Welford 1962, Technometrics 4(3).
        """
        num_envs = len(rewards)
        values, returns = self._values[:num_envs], self._returns[:num_envs]
        self._normalization.gather(obs, values)
        if self._normalization.rewards:
            returns *= self._normalization.gamma
            returns += rewards
            values[:, -1] = returns
            returns[ended] = 0
        count, mean, squares = parts(self.table[:num_envs])
        count += 1
        delta = values - mean
        mean += delta / count
        squares += delta * (values - mean)

    def repeat(self, lane: int, reward: float) -> None:
        """A step that `table` has counted, played again: the discounted return of the episode so far goes on."""
        self._returns[lane] = self._returns[lane] * self._normalization.gamma + reward


class Whole(NamedTuple):
    """The moments of all environments as one."""

    num_seen: float
    """Values seen, of each column."""
    mean: NDArray[np.float64]
    """[W]."""
    variance: NDArray[np.float64]
    """[W], of all that was seen: divided by count."""


def empty_table(num_envs: int, num_columns: int) -> NDArray[np.float64]:
    """Nothing seen yet."""
    return np.zeros((num_envs, 1 + 2 * num_columns))


def of_as_many(table: NDArray[np.float64], num_envs: int) -> NDArray[np.float64]:
    """A table for so many environments with the moments of all; of as many as before it is the same.

    Of other numbers the first environment has it all: how the environments share it makes no difference.
    """
    if len(table) == num_envs:
        return table
    whole, shared = merged(table), np.zeros((num_envs, table.shape[1]))
    count, mean, squares = parts(shared)
    count[0], mean[0], squares[0] = whole.num_seen, whole.mean, whole.variance * whole.num_seen
    return shared


def parts(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Views of count [num_envs, 1], means and sums of squares [num_envs, W]."""
    middle = (1 + table.shape[1]) // 2
    return table[:, :1], table[:, 1:middle], table[:, middle:]


def merged(table: NDArray[np.float64]) -> Whole:
    """All environments as one; of nothing, mean 0 and variance 1.

    Reference: Chan, Golub and LeVeque 1979, Stanford STAN-CS-79-773.
    """
    count, mean, squares = parts(table)
    total = count.sum()
    if total == 0:
        return Whole(0.0, np.zeros(mean.shape[1]), np.ones(mean.shape[1]))
    center = (count * mean).sum(0) / total
    between = (count * np.square(mean - center)).sum(0)
    return Whole(float(total), center, (squares.sum(0) + between) / total)
