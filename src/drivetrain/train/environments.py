"""Gymnasium environments as the trainer sees them: flat float32 observations, plain actions.

An action is a number in 0..n-1, or a vector of reals in -1..1.

gymnasium.make(id) -> Environment(reset, step) -> actor, evaluator
"""

import contextlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, SupportsFloat, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from drivetrain.core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class DiscreteActions:
    """Actions numbered from 0."""

    count: int
    """How many."""
    start: int
    """What the environment calls action 0."""


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
class Interface:
    """What the networks and the replay must know of an environment."""

    num_inputs: int
    """Length of an observation, flattened or one-hot."""
    one_hot_start: int | None
    """For discrete observations, what the environment calls observation 0; else None."""
    actions: DiscreteActions | BoxActions
    """What the agent chooses from."""

    @property
    def num_actions(self) -> int:
        """Discrete actions, or the dimensions of continuous ones."""
        return self.actions.count if isinstance(self.actions, DiscreteActions) else len(self.actions.low)


_KINDS: dict[str, type[DiscreteActions] | type[BoxActions]] = {
    "dqn": DiscreteActions,
    "ddpg": BoxActions,
    "td3": BoxActions,
    "sac": BoxActions,
}
"""The kind of actions that each algorithm chooses."""


def describe(env_id: str, algo: str) -> Interface:
    """Make the environment once and read its spaces.

    Raises:
        InvalidInput: It is unknown, cannot be made, or is not for this algorithm; says why and what
            to do.
    """
    interface = _describe(env_id)
    if not isinstance(interface.actions, _KINDS[algo]):
        others = [name for name, kind in _KINDS.items() if isinstance(interface.actions, kind)]
        wanted, found = ("discrete", "continuous") if algo == "dqn" else ("continuous", "discrete")
        raise InvalidInput(
            f"environment {env_id!r}: {algo.upper()} needs {wanted} actions, and these are {found} "
            f"({interface.num_actions} of them); use {' or '.join(others)}, or another environment "
            "(`drivetrain envs` lists which algorithm takes which)"
        )
    return interface


def _describe(env_id: str) -> Interface:
    env = make(env_id)
    try:
        num_inputs, one_hot_start = _inputs(env_id, env.observation_space)
        actions = _actions(env_id, env.action_space)
        return Interface(num_inputs=num_inputs, one_hot_start=one_hot_start, actions=actions)
    finally:
        env.close()


def make(env_id: str) -> gymnasium.Env[Any, Any]:
    """One environment, without Gymnasium's per-step checks.

    Raises:
        InvalidInput: It is unknown or cannot be made.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecation notices of somebody else's environment
            # Gymnasium 1.3 does not say what make() makes.
            return cast(Any, gymnasium).make(env_id, disable_env_checker=True)
    except (gymnasium.error.Error, ImportError, ValueError, TypeError, OSError) as error:
        sentence = " ".join(str(error).split())
        raise InvalidInput(
            f"environment {env_id!r} cannot be made: {sentence}; `drivetrain envs` lists those that can"
        ) from error


def _actions(env_id: str, space: Any) -> DiscreteActions | BoxActions:
    if _is_discrete(space):
        return DiscreteActions(count=int(space.n), start=int(space.start))
    if not _is_box(space) or not np.issubdtype(space.dtype, np.floating):
        raise InvalidInput(
            f"environment {env_id!r}: expected Discrete or real-valued Box actions, got {space}; wrap it in "
            "an action wrapper of Gymnasium's and register that"
        )
    low, high = np.ravel(space.low).astype(float), np.ravel(space.high).astype(float)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise InvalidInput(
            f"environment {env_id!r}: expected actions with finite bounds, got {space}; wrap it in "
            "gymnasium.wrappers.RescaleAction or ClipAction with bounds and register that"
        )
    return BoxActions(low=tuple(low), high=tuple(high), shape=space.shape, dtype=str(space.dtype))


def _inputs(env_id: str, observations: Any) -> tuple[int, int | None]:
    if _is_discrete(observations):
        return int(observations.n), int(observations.start)
    if _is_box(observations):
        shape: tuple[int, ...] = observations.shape
        if len(shape) >= 2 and observations.dtype == np.uint8:
            raise InvalidInput(
                f"environment {env_id!r}: observations are images {shape}, and there is "
                "no convolutional network yet; choose one with vector observations"
            )
        return int(np.prod(shape)), None
    raise InvalidInput(
        f"environment {env_id!r}: expected Box or Discrete observations, got {observations}; wrap it "
        "in gymnasium.wrappers.FlattenObservation and register that"
    )


def _is_discrete(space: Any) -> bool:
    return isinstance(space, spaces.Discrete)


def _is_box(space: Any) -> bool:
    return isinstance(space, spaces.Box)


class Environment:
    """One environment that speaks flat float32 observations, and actions from 0 or in -1..1.

    Not reset by itself: the caller sees the true last observation of an episode, then resets.
    """

    def __init__(self, env_id: str, interface: Interface) -> None:
        self._env = make(env_id)
        self._interface = interface
        self._to_env = _translator(interface.actions)

    def reset(self, seed: int | None = None) -> NDArray[np.float32]:
        """Start an episode; the observation is float32[num_inputs]."""
        observation, _ = self._env.reset(seed=seed)
        return self._flatten(observation)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool]:
        """Take an action of the agent's: (observation, reward, terminated, truncated)."""
        result: tuple[Any, SupportsFloat, bool, bool, Any]
        result = self._env.step(self._to_env(action))
        observation, reward, terminated, truncated, _ = result
        return self._flatten(observation), float(reward), bool(terminated), bool(truncated)

    def close(self) -> None:
        """Release what the environment holds."""
        self._env.close()

    def _flatten(self, observation: Any) -> NDArray[np.float32]:
        start = self._interface.one_hot_start
        if start is None:
            return np.asarray(observation, dtype=np.float32).reshape(-1)
        one_hot = np.zeros(self._interface.num_inputs, np.float32)
        one_hot[int(observation) - start] = 1.0
        return one_hot


def _translator(actions: DiscreteActions | BoxActions) -> Callable[[Any], Any]:
    """From the agent's action to the environment's."""
    if isinstance(actions, DiscreteActions):
        start = actions.start
        return lambda action: int(action) + start
    low, high = np.array(actions.low), np.array(actions.high)
    middle, half, shape, dtype = (high + low) / 2, (high - low) / 2, actions.shape, np.dtype(actions.dtype)
    low, high = low.astype(dtype).reshape(shape), high.astype(dtype).reshape(shape)
    # Clipped: rounding must not carry -1 or 1 past the bounds, which some environments check.
    return lambda action: np.clip((middle + half * action).astype(dtype).reshape(shape), low, high)


def trainable() -> dict[str, tuple[tuple[str, ...], str]]:
    """Every registered environment: the algorithms that train on it, and if none, why not."""
    return {env_id: _algorithms_for(env_id) for env_id in sorted(gymnasium.registry)}


def _algorithms_for(env_id: str) -> tuple[tuple[str, ...], str]:
    """Registered environments may fail in any way when made."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            interface = _describe(env_id)
        except Exception as error:  # a stranger's constructor may raise anything
            return (), " ".join(str(error).split())
    return tuple(algo for algo, kind in _KINDS.items() if isinstance(interface.actions, kind)), ""
