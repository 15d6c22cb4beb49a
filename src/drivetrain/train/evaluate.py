"""Greedy evaluation, the choice of the best policy, and confidence intervals."""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.core.seeding import MOST_EPISODES, episode_seeds
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.environment import Environment, close_all, closed_on_error
from drivetrain.train.environments.faults import EnvironmentFault, require_finite
from drivetrain.train.episode import Episode, success_rate
from drivetrain.train.interface import Interface, set_row
from drivetrain.train.policies.policy import Policy, make_policy, num_published
from drivetrain.train.run_dir.checkpoint import SavedPolicy, has_best_policy, load_saved_policy, save_policy
from drivetrain.train.telemetry.recording import EVALUATION, INFERENCE, SIMULATION
from drivetrain.train.telemetry.sinks.sink import Row

_NUM_RESAMPLES = 2_000


class Evaluating(Protocol):
    """Plays whole episodes greedily, on environments of its own."""

    def play(self, policy: Policy, seeds: Sequence[int]) -> list[Episode]:
        """One episode per seed, in the order of the seeds; its total reward is not discounted."""
        ...

    def begin_anew(self) -> None:
        """Have new environments: of some, an episode depends on those before, whatever its seed."""
        ...

    def close(self) -> None:
        """Release the environments."""
        ...


def most_steps(config: TrainConfig, env: Environment) -> int | None:
    """Steps after which an episode of an evaluation is over; None: its environment ends it."""
    has_limit = config.run.eval_max_steps is None and env.has_limit
    return None if has_limit else config.run.most_eval_steps


class Evaluator:
    """Plays on Gymnasium environments; an `Evaluating`.

    Args:
        config: The run's.
        interface: What the environment looks like.
        num_episodes: The most that are asked for at a time; it makes no more environments.
        beat: Called before each environment is made, reset or stepped.
    """

    def __init__(
        self, config: TrainConfig, interface: Interface, num_episodes: int, beat: Callable[[], None] = lambda: None
    ) -> None:
        self._env_id = config.env
        self._interface = interface
        self._num_envs = min(config.run.eval_envs, num_episodes)
        self._make = lambda: Environment(config, interface, beat=beat)
        self._envs: list[Environment] = []
        self._over: list[Environment] = []  # those that others have followed; closing may take the process with it
        with closed_on_error(self._envs, self._env_id):
            self._make_all()
            self._max_steps = most_steps(config, self._envs[0])
        self._is_new = True

    @EVALUATION
    def play(self, policy: Policy, seeds: Sequence[int]) -> list[Episode]:
        """See `Evaluating`."""
        self._is_new = False
        totals = [0.0] * len(seeds)
        lengths = [0] * len(seeds)
        successes = [math.nan] * len(seeds)
        lanes = self._envs[: len(seeds)]
        playing: list[int | None] = list(range(len(lanes)))
        waiting = iter(range(len(lanes), len(seeds)))
        act = INFERENCE(policy.act)
        obs = self._interface.zero_observations(len(lanes))
        with SIMULATION:
            for lane, env in enumerate(lanes):
                set_row(obs, lane, env.reset(seeds[lane]))
        while any(episode is not None for episode in playing):
            actions = act(obs)
            over: list[int] = []
            with SIMULATION:
                for lane, env in enumerate(lanes):
                    episode = playing[lane]
                    if episode is None:
                        continue
                    observation, reward, terminated, truncated = env.step(actions[lane])
                    set_row(obs, lane, observation)
                    totals[episode] += reward
                    lengths[episode] += 1
                    if terminated or truncated or lengths[episode] == self._max_steps:
                        successes[episode] = env.success
                        over.append(lane)
            require_finite(self._env_id, obs, [0 if episode is None else lengths[episode] for episode in playing])
            with SIMULATION:
                for lane in over:
                    playing[lane] = following = next(waiting, None)
                    if following is not None:
                        set_row(obs, lane, lanes[lane].reset(seeds[following]))
        return list(map(Episode, totals, lengths, successes))

    def begin_anew(self) -> None:
        """See `Evaluating`."""
        if self._is_new:
            return
        self._over, self._envs = self._envs, []
        try:
            self._make_all()
        except (InvalidInput, EnvironmentFault):  # as where there is a licence for so many
            self.close()
            self._make_all()
        self._is_new = True

    def _make_all(self) -> None:
        while len(self._envs) < self._num_envs:
            self._envs.append(self._make())

    def close(self) -> None:
        """Release the environments."""
        envs, self._envs, self._over = [*self._over, *self._envs], [], []
        close_all(envs, self._env_id)


def make_evaluator(config: TrainConfig, interface: Interface, beat: Callable[[], None] = lambda: None) -> Evaluating:
    """What plays a run's evaluations: on compiled environments where its actors have such, else on Gymnasium's.

    `beat` is called before each of Gymnasium's is made, reset or stepped, and before each step of all compiled ones.
    """
    if config.fused_engine is None:
        return Evaluator(config, interface, max(config.run.eval_episodes, config.run.final_eval_episodes), beat)
    from drivetrain.train.actor.fused.evaluation import FusedEvaluator  # imports jax: only where it is needed

    return FusedEvaluator(config, interface, min(config.run.eval_envs, config.run.eval_episodes), beat)


class Selection:
    """Evaluates policies as the run goes, and keeps the best in RUN/best.

    The best is the one of largest mean return on the selection seeds; among equals the newest. One
    that an earlier process of the run has saved is known.

    Args:
        config: The run's.
        interface: What the environment looks like.
        run_dir: The run's folder.
        complain: Told when the best policy cannot be saved.
        beat: See `make_evaluator`.
        rest: Called before the disk is waited for, which is no environment's affair.
    """

    def __init__(
        self,
        config: TrainConfig,
        interface: Interface,
        run_dir: Path,
        *,
        complain: Callable[[str], None],
        beat: Callable[[], None] = lambda: None,
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        self._complain, self._rest = complain, rest
        self._config = config
        self._interface = interface
        self._evaluator = make_evaluator(config, interface, beat)
        self._rest()
        self._run_dir = run_dir
        self._seeds = episode_seeds(config.run.seed, "selection", config.run.eval_episodes)
        self._best = load_saved_policy(run_dir, "best") if has_best_policy(run_dir) else None
        self._unsaved: NDArray[np.float32] | None = None  # the latest, as long as there was no room for any

    def consider(self, vector: NDArray[np.float32], num_steps: int, num_updates: int) -> Row:
        """Evaluate a parameter vector, keep it if it is the best; the row of what was found."""
        policy = make_policy(self._config, self._interface, vector)
        episodes = self._evaluator.play(policy, self._seeds)
        self._rest()
        mean = float(np.mean([one.total_reward for one in episodes]))
        if self._best is None or mean >= self._best.mean_return:
            self._keep(SavedPolicy(vector=vector, num_steps=num_steps, num_updates=num_updates, mean_return=mean))
        rate = success_rate(episodes)
        said = {} if rate is None else {"eval_success_rate": rate}
        return {"eval_return": mean, **said, "num_steps": num_steps, "num_updates": num_updates}

    def _keep(self, found: SavedPolicy) -> None:
        """Save the best policy; where there is no room the one before stays."""
        try:
            save_policy(self._run_dir, found.vector, found.mean_return, found.num_steps, found.num_updates)
            self._best = replace(found, vector=found.vector.copy())
        except OSError as error:
            self._unsaved = found.vector.copy()
            best = self._run_dir / "best"
            before = "the one before" if has_best_policy(self._run_dir) else "the latest in its place"
            self._complain(f"{best}: cannot be written: {error.strerror}; the run goes on with {before}")

    def final(self) -> list[Episode]:
        """Episodes of the best policy on the final seeds."""
        seeds = final_seeds(self._config, self._config.run.final_eval_episodes)
        if self._best is not None and not has_best_policy(self._run_dir):  # as where the run's folder was moved away
            self._keep(self._best)
        if self._unsaved is not None and not has_best_policy(self._run_dir):
            policy = make_policy(self._config, self._interface, self._unsaved)
        else:
            policy = policy_of(self._config, self._interface, load_saved_policy(self._run_dir, "best"))
        self._evaluator.begin_anew()  # as whoever evaluates the policy later has them
        return self._evaluator.play(policy, seeds)

    def close(self) -> None:
        """Release the environments."""
        self._evaluator.close()


def final_seeds(config: TrainConfig, num_episodes: int) -> list[int]:
    """Seeds of the first episodes of a run's final evaluation; where it has fewer, others follow."""
    seed, size = config.run.seed, config.run.final_eval_episodes
    seeds = dict.fromkeys(episode_seeds(seed, "final", size))
    block = 0
    while len(seeds) < num_episodes:  # drawn in blocks, which do not depend on how many are asked for; some meet
        block += 1
        size = min(2 * size, MOST_EPISODES)
        seeds |= dict.fromkeys(episode_seeds(seed, "final", size, block))
    return list(seeds)[:num_episodes]


def final_episodes(config: TrainConfig, interface: Interface, policy: Policy, num_episodes: int) -> list[Episode]:
    """The first episodes of a run's final evaluation, by any policy, in environments that are made for them.

    Raises:
        InvalidInput: The environment cannot be made.
        EnvironmentFault: It did what no environment may.
    """
    with contextlib.closing(Evaluator(config, interface, num_episodes)) as evaluator:
        return evaluator.play(policy, final_seeds(config, num_episodes))


def policy_of(config: TrainConfig, interface: Interface, saved: SavedPolicy) -> Policy:
    """A saved policy, ready to act.

    Raises:
        FileFormatError: Its parameters do not fit the run's network.
    """
    expected = num_published(config, interface)
    if saved.vector.shape != (expected,):
        raise FileFormatError(
            f"expected a policy of {expected} parameters for {config.env}, got "
            f"{saved.vector.shape}; the files are of different runs, or the environment or the torso has changed"
        )
    return make_policy(config, interface, saved.vector)


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def interval(returns: Sequence[float]) -> Interval:
    """95% bootstrap interval of the mean (percentiles of resampled means, fixed resampling)."""
    values = np.asarray(returns, np.float64)
    rng = np.random.default_rng(0)
    means = [values[rng.integers(0, len(values), len(values))].mean() for _ in range(_NUM_RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(low), float(high))


def next_evaluation(config: TrainConfig, num_steps: int) -> int:
    """The first step after `num_steps` at which the policy is to be evaluated."""
    return (num_steps // config.run.eval_interval_steps + 1) * config.run.eval_interval_steps
