"""Where an actor's chance comes from: seeds of episodes, the stream of actions, and what noise remembers."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.seeding import StepStream, episode_seeds, stream
from drivetrain.train.config import DQNConfig, PPOConfig, TrainConfig
from drivetrain.train.experience.rounds.episodes import Episodes
from drivetrain.train.interface import Arrays, Interface, num_rows, one_row
from drivetrain.train.policies.noise import CorrelatedNoise
from drivetrain.train.policies.policy import Policy


class Exploration(Protocol):
    """Chooses an actor's actions and the seeds of its environments' episodes."""

    def first_seeds(self) -> list[int]:
        """Of the first episode of each environment."""
        ...

    def next_seed(self, lane: int) -> int | None:
        """Of the next episode of one of them, which begins; None: the environment's own stream goes on."""
        ...

    def actions(self, policy: Policy, obs: Arrays, start: int) -> NDArray[Any]:
        """For the first environments, [num_envs, ...]; `start` is the run's step of the first of them."""
        ...


class Together:
    """One stream for all of an actor's environments, which share one evaluation of the network.

    Args:
        config: The run's.
        interface: What the environments look like.
        path: Tells this actor's streams from those of others, and of its predecessors.
    """

    def __init__(self, config: TrainConfig, interface: Interface, path: tuple[int, ...]) -> None:
        self._rng = stream(config.run.seed, "exploration", *path)
        self._noise = _noise_of(config, interface)
        self._seeds = episode_seeds(config.run.seed, "training", config.envs_per_actor, *path)

    def first_seeds(self) -> list[int]:
        """See Exploration."""
        return self._seeds

    def next_seed(self, lane: int) -> int | None:
        """None."""
        if self._noise is not None:
            self._noise.begin(lane)
        return None

    def actions(self, policy: Policy, obs: Arrays, start: int) -> NDArray[Any]:
        """See Exploration."""
        noise = None if self._noise is None else self._noise.next(self._rng, 0, num_rows(obs))
        return policy.explore(obs, start, self._rng, noise)


class Apart:
    """Each environment by itself, so that it does not matter which process has it.

    The chance of environment k at its step t comes from (seed, k, t), the seed of its episode e from (seed, k, e), and
    the network sees one observation at a time: the bits of a product depend on the number of its rows.

    Args:
        config: The run's.
        interface: What the environments look like.
        actor: Which of the actors; 0 in a sequential run.
        num_rounds: Steps that every environment has taken before.
        episodes: Where the actor's environments are.
    """

    def __init__(
        self, config: TrainConfig, interface: Interface, actor: int, num_rounds: int, episodes: Episodes
    ) -> None:
        self._seed = config.run.seed
        self._num_envs = config.num_envs
        self._first = actor * config.envs_per_actor
        envs = range(self._first, self._first + config.envs_per_actor)
        self._streams = [StepStream(config.run.seed, "exploration", env) for env in envs]
        self._num_rounds = num_rounds
        self._episodes = list(episodes.numbers)
        self._noise = _noise_of(config, interface)
        if self._noise is not None:
            for lane, actions in enumerate(episodes.actions):
                for step in range(num_rounds - len(actions), num_rounds):
                    self._noise.next(self._streams[lane].at(step), lane, 1)  # as it was when these were taken

    def first_seeds(self) -> list[int]:
        """Of the present episodes."""
        return [self._seed_of(lane) for lane in range(len(self._episodes))]

    def next_seed(self, lane: int) -> int | None:
        """See Exploration."""
        self._episodes[lane] += 1
        if self._noise is not None:
            self._noise.begin(lane)
        return self._seed_of(lane)

    def actions(self, policy: Policy, obs: Arrays, start: int) -> NDArray[Any]:
        """See Exploration."""
        del start  # an actor's grants do not know of the environments of others
        rows: list[NDArray[Any]] = []
        for lane in range(num_rows(obs)):
            step = self._num_rounds * self._num_envs + self._first + lane
            rng = self._streams[lane].at(self._num_rounds)
            noise = None if self._noise is None else self._noise.next(rng, lane, 1)
            rows.append(policy.explore(one_row(obs, lane), step, rng, noise))
        self._num_rounds += 1
        return np.concatenate(rows)

    def _seed_of(self, lane: int) -> int:
        return episode_seeds(self._seed, "training", 1, self._first + lane, self._episodes[lane])[0]


def _noise_of(config: TrainConfig, interface: Interface) -> CorrelatedNoise | None:
    """What is remembered of the noise of an actor's environments; None where each step's is independent."""
    agent = config.agent
    if isinstance(agent, DQNConfig | PPOConfig) or agent.noise_correlation == 0:
        return None
    return CorrelatedNoise(agent.noise_correlation, config.envs_per_actor, interface.num_actions)
