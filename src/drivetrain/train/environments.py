"""Gymnasium environments as the trainer sees them: flat float32 observations, actions 0..n-1.

gymnasium.make(id) -> Environment(reset, step) -> actor, evaluator
"""

import contextlib
import io
import warnings
from dataclasses import dataclass
from typing import Any, SupportsFloat, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from drivetrain.core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Interface:
    """What the network and the replay must know of an environment."""

    num_inputs: int
    """Length of an observation, flattened or one-hot."""
    num_actions: int
    """Actions the agent chooses from, numbered from 0."""
    first_action: int
    """What the environment calls action 0."""
    one_hot_start: int | None
    """For discrete observations, what the environment calls observation 0; else None."""


def describe(env_id: str) -> Interface:
    """Make the environment once and read its spaces.

    Raises:
        InvalidInput: It is unknown, cannot be made, or is not for DQN; says why and what to do.
    """
    env = make(env_id)
    try:
        return _interface(env_id, env.observation_space, env.action_space)
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


def _interface(env_id: str, observations: Any, actions: Any) -> Interface:
    if not _is_discrete(actions):
        raise InvalidInput(
            f"environment {env_id!r}: DQN needs discrete actions, got {actions}; choose an "
            "environment with a Discrete action space (`drivetrain envs` lists them)"
        )
    num_inputs, one_hot_start = _inputs(env_id, observations)
    return Interface(
        num_inputs=num_inputs,
        num_actions=int(actions.n),
        first_action=int(actions.start),
        one_hot_start=one_hot_start,
    )


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
    """One environment that speaks flat float32 observations and actions from 0.

    Not reset by itself: the caller sees the true last observation of an episode, then resets.
    """

    def __init__(self, env_id: str, interface: Interface) -> None:
        self._env = make(env_id)
        self._interface = interface

    def reset(self, seed: int | None = None) -> NDArray[np.float32]:
        """Start an episode; the observation is float32[num_inputs]."""
        observation, _ = self._env.reset(seed=seed)
        return self._flatten(observation)

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool]:
        """Take an action in 0..num_actions-1: (observation, reward, terminated, truncated)."""
        result: tuple[Any, SupportsFloat, bool, bool, Any]
        result = self._env.step(action + self._interface.first_action)
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


def trainable() -> dict[str, str]:
    """Every registered environment: its id, and "" where DQN can train on it, else why not."""
    return {env_id: _refusal(env_id) for env_id in sorted(gymnasium.registry)}


def _refusal(env_id: str) -> str:
    """Why DQN cannot train on it; registered environments may fail in any way when made."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            describe(env_id)
        except Exception as error:  # a stranger's constructor may raise anything
            return " ".join(str(error).split())
    return ""
