"""What steps an actor's environments: observations -> policy -> environments -> replay, rollout."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.seeding import stream
from drivetrain.train.actor.stepper import Stepper
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.environment import Environment, close_all, closed_on_error
from drivetrain.train.environments.faults import require_finite
from drivetrain.train.episode import Episode
from drivetrain.train.experience.experience import Hindsight, WriterMaker, add_first
from drivetrain.train.experience.rounds.episodes import Episodes
from drivetrain.train.experience.rounds.exploration import Apart, Exploration, Together
from drivetrain.train.experience.rounds.returning import bring_back
from drivetrain.train.interface import Arrays, Interface, first_rows, rows_of, set_row
from drivetrain.train.normalization import Moments, Normalization
from drivetrain.train.policies.embeddings import Encoders, embedded
from drivetrain.train.policies.policy import Policy, make_policy
from drivetrain.train.telemetry.recording import INFERENCE, REPLAY, SIMULATION


class Actor:
    """E Gymnasium environments stepped together, exploring; a `Stepper`.

    Args:
        config: The run's.
        interface: What the environments look like.
        policy: Chooses actions.
        make_writer: Gives a writer for its environments.
        exploration: Its chance; None: that of the first actor.
        episodes: Where its environments are, if not at their first episode's begin.
        encoders: Where they are frozen: make what the policy sees and the replay keeps.
        beat: Called before each environment is made, reset or stepped.
        rest: Called before what they have done is written, which may wait for a disk; not in hindsight, where the
            environment is asked for rewards then.
        goal_seed: Of the goals that are chosen in hindsight.
    """

    def __init__(
        self,
        config: TrainConfig,
        interface: Interface,
        policy: Policy,
        make_writer: WriterMaker,
        exploration: Exploration | None = None,
        episodes: Episodes | None = None,
        encoders: Encoders | None = None,
        beat: Callable[[], None] = lambda: None,
        rest: Callable[[], None] = lambda: None,
        goal_seed: int = 0,
    ) -> None:
        self._num_envs = self.steps_per_call = config.envs_per_actor
        self._env_id = config.env
        self._clip_rewards = config.environment.clip_rewards
        self._rest = rest if not config.in_hindsight else lambda: None
        self._policy = policy
        self._exploration = exploration = exploration or Together(config, interface, (0, 0))
        self._actions = INFERENCE(exploration.actions)
        self._envs: list[Environment] = []
        with closed_on_error(self._envs, self._env_id):
            for _ in range(self._num_envs):
                self._envs.append(Environment(config, interface, training=True, beat=beat))
            self._writer = make_writer(self._num_envs, self._in_hindsight(config, goal_seed))
            self._embed = None if encoders is None else INFERENCE(encoders.embed)
            seen = interface if encoders is None else embedded(config, interface)
            self._obs, self._next_obs = (shown.zero_observations(self._num_envs) for shown in (seen, interface))
            self._reward = np.zeros(self._num_envs, np.float32)
            self._terminated = np.zeros(self._num_envs, np.bool_)
            self._truncated = np.zeros(self._num_envs, np.bool_)
            normalization = Normalization.of(config, interface)
            self.moments = Moments(normalization, self._num_envs) if normalization.num_columns else None
            """What was seen so far, for normalisation."""
            self._return = [0.0] * self._num_envs
            self._length = [0] * self._num_envs
            for lane, seed in enumerate(exploration.first_seeds()):
                first = self._envs[lane].reset(seed) if episodes is None else self._bring_back(lane, seed, episodes)
                self._begin(lane, first)

    def step(self, num_envs: int, start: int, /) -> list[Episode]:
        """Step the first `num_envs` environments once, from the run's step `start`; write the transitions.

        Fewer than all happens at the very end of a run; the others stay where they are, with their n-step windows.

        Returns:
            The episodes that ended.
        """
        obs = first_rows(self._obs, num_envs)
        actions = self._actions(self._policy, obs, start)
        with SIMULATION:
            for index in range(num_envs):
                observation, reward, terminated, truncated = self._envs[index].step(actions[index])
                set_row(self._next_obs, index, observation)
                self._reward[index] = reward
                self._terminated[index] = terminated
                self._truncated[index] = truncated
                self._return[index] += reward
                self._length[index] += 1
        self._rest()
        require_finite(self._env_id, self._next_obs, self._length[:num_envs])
        rewards = self._reward[:num_envs]
        if self._clip_rewards:
            rewards = np.sign(rewards)
        next_obs = self._seen(first_rows(self._next_obs, num_envs))
        self._write(num_envs, actions, rewards, next_obs)
        ended = self._terminated[:num_envs] | self._truncated[:num_envs]
        if self.moments is not None:
            self.moments.add(obs, rewards, ended)
        set_row(self._obs, slice(num_envs), next_obs)
        return [self._start_episode(index) for index in ended.nonzero()[0].tolist()]

    def close(self) -> None:
        """Release the environments."""
        close_all(self._envs, self._env_id)

    def _in_hindsight(self, config: TrainConfig, seed: int) -> Hindsight | None:
        if not config.in_hindsight:
            return None
        goals = self._envs[0].goals(clip_rewards=self._clip_rewards)
        chosen = config.replay.hindsight_goals, config.replay.hindsight_strategy
        return Hindsight(goals, *chosen, seed)

    @REPLAY
    def _write(self, num_envs: int, actions: NDArray[Any], rewards: NDArray[np.float32], next_obs: Arrays) -> None:
        step = {
            "obs": first_rows(self._obs, num_envs),
            "action": actions,
            "reward": rewards,
            "next_obs": next_obs,
            "terminated": self._terminated[:num_envs],
            "truncated": self._truncated[:num_envs],
        }
        add_first(self._writer, self._num_envs, step)

    @SIMULATION
    def _start_episode(self, index: int) -> Episode:
        episode = Episode(self._return[index], self._length[index], self._envs[index].success)
        self._begin(index, self._envs[index].reset(self._exploration.next_seed(index)))
        self._return[index] = 0.0
        self._length[index] = 0
        return episode

    def _begin(self, lane: int, observation: Arrays) -> None:
        set_row(self._obs, lane, rows_of(self._seen(rows_of(observation, None)), 0))

    def _seen(self, observations: Arrays) -> Arrays:
        """Observations as policy and replay take them."""
        return observations if self._embed is None else self._embed(observations)

    def _bring_back(self, lane: int, seed: int, episodes: Episodes) -> Arrays:
        def counted(reward: float) -> None:
            self._return[lane] += reward
            self._length[lane] += 1
            if self.moments is not None:
                learned = np.float32(reward)
                self.moments.repeat(lane, float(np.sign(learned) if self._clip_rewards else learned))

        return bring_back(self._envs[lane], self._env_id, seed, episodes, lane, counted, self._seen)


def make_actor(
    config: TrainConfig,
    interface: Interface,
    vector: NDArray[np.float32],
    make_writer: WriterMaker,
    *,
    index: int,
    path: tuple[int, ...],
    episodes: Episodes | None,
    num_steps: int,
    encoders: Encoders | None,
    beat: Callable[[], None] = lambda: None,
    rest: Callable[[], None] = lambda: None,
) -> Stepper:
    """What steps an actor's environments, in a run that is new or gone on with.

    Args:
        config: The run's.
        interface: What the environments look like.
        vector: The published vector, float32[num_published]; each step acts on what it holds at that moment.
        make_writer: Gives a writer for its environments.
        index: Which actor.
        path: Tells its random streams from those of others, and of its predecessors.
        episodes: Of a deterministic run that goes on: where all environments are.
        num_steps: Steps that the run has taken before.
        encoders: Where they are frozen.
        beat: Called before each of Gymnasium's environments is made, reset or stepped, and before each call of kernels.
        rest: Called before what they have done is written, see `Actor`.
    """
    if config.fused_engine is not None:
        from drivetrain.train.actor.fused.actor import FusedActor  # imports jax: only where it is needed

        return FusedActor(config, interface, vector, make_writer, path, beat, rest)
    policy = make_policy(config, interface, vector) if encoders is None else encoders.policy(config, interface, vector)
    part, goal_seed = None, 0
    if config.run.deterministic:
        count = config.envs_per_actor
        part = None if episodes is None else episodes.part(index * count, count)
        exploration = Apart(config, interface, index, num_steps // config.num_envs, part or Episodes(count))
    else:
        exploration = Together(config, interface, path)
        goal_seed = int(stream(config.run.seed, "goals", *path).integers(2**31))
    return Actor(
        config,
        interface,
        policy,
        make_writer,
        exploration,
        episodes=part,
        encoders=encoders,
        beat=beat,
        rest=rest,
        goal_seed=goal_seed,
    )
