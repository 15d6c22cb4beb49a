"""The present episode of every environment: what it takes to play it again up to here."""

import itertools
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.train.experience.rollout import Rollout
from drivetrain.train.interface import Arrays

_UNKNOWN = -1  # checksum of an observation that nobody but the environment's actor has seen: an episode's first


class Episodes:
    """Numbers of the present episodes, their actions, and a checksum of what they show now.

    Args:
        num_envs: Environments; nothing has been done in them.
    """

    def __init__(self, num_envs: int) -> None:
        self.numbers = [0] * num_envs
        """Episodes that each environment has ended before."""
        self.actions: list[list[Any]] = [[] for _ in range(num_envs)]
        """Actions of the present one, oldest first, as stored."""
        self.shown = [_UNKNOWN] * num_envs
        """`checksum` of the observation that the last of them led to."""

    def add(self, rollout: Rollout) -> None:
        """Note whole rounds: [T, N, ...] each."""
        ended = np.logical_or(rollout.terminated, rollout.truncated)
        action: NDArray[Any] = np.array(rollout.action)
        for row, env in itertools.product(range(ended.shape[0]), range(ended.shape[1])):
            if ended[row, env]:
                self.numbers[env] += 1
                self.actions[env] = []
            else:
                self.actions[env].append(action[row, env])
        for env, actions in enumerate(self.actions):
            self.shown[env] = checksum(rollout.last_obs, (-1, env)) if actions else _UNKNOWN

    def part(self, first: int, count: int) -> "Episodes":
        """Those of one actor's environments."""
        part = Episodes(count)
        part.numbers = self.numbers[first : first + count]
        part.actions = self.actions[first : first + count]
        part.shown = self.shown[first : first + count]
        return part

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint holds of them."""
        actions = [action for episode in self.actions for action in episode]
        return {
            "episodes/numbers": np.array(self.numbers, np.int64),
            "episodes/lengths": np.array([len(episode) for episode in self.actions], np.int64),
            "episodes/actions": np.array(actions),
            "episodes/shown": np.array(self.shown, np.int64),
        }

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "Episodes":
        """What `arrays` gave."""
        episodes = cls(len(arrays["episodes/numbers"]))
        episodes.numbers = arrays["episodes/numbers"].tolist()
        episodes.shown = arrays["episodes/shown"].tolist()
        ends = np.cumsum(arrays["episodes/lengths"])
        episodes.actions = [list(part) for part in np.split(arrays["episodes/actions"], ends[:-1])]
        return episodes


def checksum(obs: Arrays, index: Any) -> int:
    """CRC-32 of one observation among many, as stored."""
    entries = obs.values() if isinstance(obs, dict) else (obs,)
    total = 0
    for entry in entries:
        total = zlib.crc32(np.ascontiguousarray(entry[index]).tobytes(), total)
    return total
