"""Where an actor's chance comes from: seeds of episodes, and the stream that actions are drawn from."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.seeding import StepStream, episode_seeds, stream
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Arrays, num_rows, one_row
from drivetrain.train.policies.policy import Policy


class Exploration(Protocol):
    """Chooses an actor's actions and the seeds of its environments' episodes."""

    def first_seeds(self) -> list[int]:
        """Of the first episode of each environment."""
        ...

    def next_seed(self, lane: int) -> int | None:
        """Of the next episode of one of them; None: the environment's own stream goes on."""
        ...

    def actions(self, policy: Policy, obs: Arrays, start: int) -> NDArray[Any]:
        """For the first environments, [num_envs, ...]; `start` is the run's step of the first of them."""
        ...


class Together:
    """One stream for all of an actor's environments, which share one evaluation of the network.

    Args:
        config: The run's.
        path: Tells this actor's streams from those of others, and of its predecessors.
    """

    def __init__(self, config: TrainConfig, path: tuple[int, ...]) -> None:
        self._rng = stream(config.run.seed, "exploration", *path)
        self._seeds = episode_seeds(config.run.seed, "training", config.envs_per_actor, *path)

    def first_seeds(self) -> list[int]:
        """See Exploration."""
        return self._seeds

    def next_seed(self, lane: int) -> int | None:
        """None."""
        return None

    def actions(self, policy: Policy, obs: Arrays, start: int) -> NDArray[Any]:
        """See Exploration."""
        return policy.explore(obs, start, self._rng)


class Apart:
    """Each environment by itself, so that it does not matter which process has it.

    The chance of environment k at its step t comes from (seed, k, t), the seed of its episode e from (seed, k, e), and
    the network sees one observation at a time: the bits of a product depend on the number of its rows.

    Args:
        config: The run's.
        actor: Which of the actors; 0 in a sequential run.
        num_rounds: Steps that every environment has taken before.
        episodes: The number of the present episode of each of the actor's environments.
    """

    def __init__(self, config: TrainConfig, actor: int, num_rounds: int, episodes: list[int]) -> None:
        self._seed = config.run.seed
        self._num_envs = config.num_envs
        self._first = actor * config.envs_per_actor
        envs = range(self._first, self._first + config.envs_per_actor)
        self._streams = [StepStream(config.run.seed, "exploration", env) for env in envs]
        self._num_rounds = num_rounds
        self._episodes = list(episodes)

    def first_seeds(self) -> list[int]:
        """Of the present episodes."""
        return [self._seed_of(lane) for lane in range(len(self._episodes))]

    def next_seed(self, lane: int) -> int | None:
        """See Exploration."""
        self._episodes[lane] += 1
        return self._seed_of(lane)

    def actions(self, policy: Policy, obs: Arrays, start: int) -> NDArray[Any]:
        """See Exploration."""
        del start  # an actor's grants do not know of the environments of others
        rows: list[NDArray[Any]] = []
        for lane in range(num_rows(obs)):
            step = self._num_rounds * self._num_envs + self._first + lane
            rows.append(policy.explore(one_row(obs, lane), step, self._streams[lane].at(self._num_rounds)))
        self._num_rounds += 1
        return np.concatenate(rows)

    def _seed_of(self, lane: int) -> int:
        return episode_seeds(self._seed, "training", 1, self._first + lane, self._episodes[lane])[0]
