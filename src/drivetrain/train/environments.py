"""Gymnasium environments as the trainer sees them.

gymnasium.make(id) -> Environment(reset, step) -> actor, evaluator
"""

import contextlib
import io
import warnings
from typing import Any, SupportsFloat, cast

import gymnasium

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Arrays, Interface
from drivetrain.train.spaces import actions_of, algorithms_for, decoder, encoder, observations_of, require_fit


def describe(config: TrainConfig) -> Interface:
    """Make a run's environment once and read its spaces.

    Raises:
        InvalidInput: It is unknown, cannot be made, or is not for this algorithm; says why and what
            to do.
    """
    interface = _describe(config.env)
    require_fit(interface, config.algo, config.env)
    return interface


def _describe(env_id: str) -> Interface:
    env = make(env_id)
    try:
        observations = observations_of(env.observation_space, env_id)
        return Interface(observations=observations, actions=actions_of(env.action_space, env_id))
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


class Environment:
    """One environment that gives observations as they are stored, and takes the agent's actions.

    Not reset by itself: the caller sees the true last observation of an episode, then resets.

    Args:
        config: The run's.
        interface: What the environment looks like.
    """

    def __init__(self, config: TrainConfig, interface: Interface) -> None:
        self._env = make(config.env)
        self._encode = encoder(interface.observations)
        self._decode = decoder(interface.actions)

    def reset(self, seed: int | None = None) -> Arrays:
        """Start an episode; its first observation."""
        observation, _ = self._env.reset(seed=seed)
        return self._encode(observation)

    def step(self, action: Any) -> tuple[Arrays, float, bool, bool]:
        """Take an action of the agent's: (observation, reward, terminated, truncated)."""
        result: tuple[Any, SupportsFloat, bool, bool, Any]
        result = self._env.step(self._decode(action))
        observation, reward, terminated, truncated, _ = result
        return self._encode(observation), float(reward), bool(terminated), bool(truncated)

    def close(self) -> None:
        """Release what the environment holds."""
        self._env.close()


def trainable() -> dict[str, tuple[tuple[str, ...], str]]:
    """Every registered environment: the algorithms that train on it, and if none, why not."""
    return {env_id: _algorithms_for(env_id) for env_id in sorted(gymnasium.registry)}


def _algorithms_for(env_id: str) -> tuple[tuple[str, ...], str]:
    """Registered environments may fail in any way when made."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            return algorithms_for(_describe(env_id)), ""
        except Exception as error:  # a stranger's constructor may raise anything
            return (), " ".join(str(error).split())
