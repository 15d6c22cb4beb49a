"""Returns and lengths of the episodes that end within a block of steps."""

import numpy as np
from numpy.typing import NDArray

from drivetrain.train.episode import Episode


class Counting:
    """Counts what the environments of an actor have gathered in their present episodes.

    Args:
        num_envs: Environments, at the start of an episode.
    """

    def __init__(self, num_envs: int) -> None:
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)

    def add(self, rewards: NDArray[np.float32], ended: NDArray[np.bool_]) -> list[Episode]:
        """Count a block, [num_steps, num_envs] each; the episodes that ended, by environment and then by step.

        Sums run on over the ends of episodes, and a return is the difference of two: in float64.
        """
        sums = rewards.cumsum(0, np.float64) + self._returns
        env, step = np.nonzero(ended.T)
        returns, lengths = sums[step, env], step + 1 + self._lengths[env]
        self._returns, self._lengths = sums[-1], self._lengths + len(rewards)
        if not len(env):
            return []
        last = np.append(env[1:] != env[:-1], True)  # of its environment in this block
        self._returns[env[last]] -= returns[last]
        self._lengths[env[last]] = len(rewards) - 1 - step[last]
        again = np.flatnonzero(~last)  # those after which the same environment ends another
        returns[again + 1], lengths[again + 1] = np.diff(returns)[again], np.diff(lengths)[again]
        return list(map(Episode, returns.tolist(), lengths.tolist()))

    def length_at(self, step: int, env: int, ended: NDArray[np.bool_]) -> int:
        """Steps of its episode after step `step` of a block that is not counted yet."""
        ends = np.flatnonzero(ended[:step, env])
        return int(step - ends[-1] if len(ends) else self._lengths[env] + step + 1)
