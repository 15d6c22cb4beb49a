"""Environments with goals: what a step would have been rewarded with, had it been for another goal.

stored goals [N, ...] --as the environment has them--> its compute_reward, compute_terminated --> N numbers

The functions are those of Gymnasium-Robotics' goal environments, `compute_reward(achieved_goal, desired_goal, info)`,
whose info is empty here, as in Stable-Baselines3. Some answer for many goals at once and some for one, and no
declaration says which: the first goals are asked for in both ways, and a function that answers otherwise for many is
asked for one at a time from then on. One that answers for many alone, as is enough for Stable-Baselines3, is asked so.
"""

import inspect
from collections.abc import Callable
from typing import Any, cast

import gymnasium
import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import InvalidInput
from drivetrain.train.environments.faults import EnvironmentFault, number_of, raised, refuse, shown
from drivetrain.train.interface import Categories, Entries, Interface, entries_of

_ACHIEVED, _DESIRED = "achieved_goal", "desired_goal"
_REWARD, _TERMINATED = "compute_reward", "compute_terminated"
_AnyEnv = gymnasium.Env[Any, Any]
_LARGEST = float(np.finfo(np.float32).max)


def require_goals(env: _AnyEnv, env_id: str, interface: Interface) -> None:
    """Refuse hindsight for an environment that has no goals, or cannot say what another would have been worth.

    Raises:
        InvalidInput: It is one.
    """
    entries = entries_of(interface.observations)
    found = entries.get(_ACHIEVED), entries.get(_DESIRED)
    if not isinstance(interface.observations, Entries) or None in found:
        raise InvalidInput(
            f"hindsight_goals: expected an environment whose observations are a dict with {_ACHIEVED} and {_DESIRED}, "
            f"an array each, and those of {env_id!r} have {', '.join(name or 'no names' for name in entries)}; leave "
            "it at 0"
        )
    if found[0] != found[1]:
        raise InvalidInput(
            f"hindsight_goals: expected {_DESIRED} to be as {_ACHIEVED} is, and in {env_id!r} one is {found[1]} and "
            f"the other {found[0]}; give both the same space"
        )
    if _function(env, _REWARD) is None:
        raise InvalidInput(
            f"hindsight_goals: environment {env_id!r} has no {_REWARD}({_ACHIEVED}, {_DESIRED}, info), which says what "
            "steps with other goals are worth; give it one, as Gymnasium-Robotics' have it"
        )
    for name in (_REWARD, _TERMINATED):
        _require_arguments(env, name, env_id)


class Goals:
    """What an environment says of goals, as they are stored.

    Args:
        env: It, with its wrappers.
        env_id: Its name.
        interface: What it looks like.
        clip_rewards: Whether the sign of a reward is learned from.
    """

    def __init__(self, env: _AnyEnv, env_id: str, interface: Interface, *, clip_rewards: bool) -> None:
        shown_by_env = _as_shown(cast(Any, env.observation_space)[_ACHIEVED], interface)
        reward, terminated = (
            None if function is None else _Judge(name, function, env_id, env.unwrapped, shown_by_env)
            for name, function in ((_REWARD, _function(env, _REWARD)), (_TERMINATED, _function(env, _TERMINATED)))
        )
        assert reward is not None, "require_goals was asked before"
        self._reward, self._clip_rewards = reward, clip_rewards
        self.terminated: Callable[[NDArray[Any], NDArray[Any]], NDArray[np.bool_]] | None = (
            None if terminated is None else lambda achieved, desired: terminated(achieved, desired) != 0
        )
        """Whether reaching `achieved` ends an episode that is for `desired`, bool[N]; None: it does not say."""

    def reward(self, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.float64]:
        """What steps that have led to `achieved` are worth where `desired` was wanted: [N] of [N, ...] each.

        Raises:
            EnvironmentFault: The environment says something that is no number, or raises something.
        """
        rewards = self._reward(achieved, desired)
        return np.sign(rewards) if self._clip_rewards else rewards


class _Judge:
    """A function of the environment's, asked about many goals."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        env_id: str,
        env: object,
        shown_by_env: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> None:
        self._name, self._function, self._env_id, self._env = name, function, env_id, env
        self._as_shown = shown_by_env
        self._takes_many: bool | None = None  # not known yet

    def __call__(self, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.float64]:
        pairs = self._as_shown(achieved), self._as_shown(desired)  # copies, in which it may compute
        if self._takes_many:
            return self._checked(self._asked(*pairs, [{} for _ in achieved]), len(achieved))
        try:
            one_by_one = [self._asked(*pair, {}) for pair in zip(*pairs, strict=True)]
            values = np.concatenate([self._checked(value, 1) for value in one_by_one])
        except EnvironmentFault:
            together = self._of_many(achieved, desired) if self._takes_many is None else None
            if together is None:
                raise
            self._takes_many = True
            return together
        if self._takes_many is None and len(values) > 1:
            together = self._of_many(achieved, desired)
            self._takes_many = together is not None and np.allclose(together, values)
        return values

    def _of_many(self, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.float64] | None:
        """What it says of all at once; None where that does not fit."""
        try:
            pairs = self._as_shown(achieved), self._as_shown(desired)
            together = np.asarray(self._function(*pairs, [{} for _ in achieved]))
            return self._checked(together, len(achieved)) if together.shape == (len(achieved),) else None
        except (Exception, SystemExit):  # a stranger's, who did not expect so many
            return None

    def _asked(self, achieved: NDArray[Any], desired: NDArray[Any], info: Any) -> Any:
        try:
            return self._function(achieved, desired, info)
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit):
                refuse(self._env_id, self._name, f"expected an answer, and it left the program ({error!r})")
            raised(self._env_id, self._name, error, self._env)

    def _checked(self, answer: Any, count: int) -> NDArray[np.float64]:
        expected = "a finite number" if self._name == _REWARD else "True or False"
        try:
            array = np.asarray(answer).reshape(count)
            values = array.astype(np.float64) if array.dtype.kind in "biuf" else np.array([*map(number_of, array)])
        except Exception:  # a stranger's answer may be anything
            values = np.full(count, np.nan)
        fits = np.abs(values) <= _LARGEST if self._name == _REWARD else np.isin(values, (0, 1))
        if not fits.all():
            refuse(self._env_id, self._name, f"expected {expected} of each of {count} goals, got {shown(answer)}")
        return values


def _function(env: _AnyEnv, name: str) -> Callable[..., Any] | None:
    """Of the environment, or of the wrapper that changes goals."""
    found = env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
    return found if callable(found) else None


def _require_arguments(env: _AnyEnv, name: str, env_id: str) -> None:
    """Refuse a function, where there is one, that cannot be asked: an episode has ended before it is.

    Raises:
        InvalidInput: It takes other arguments.
    """
    function = _function(env, name)
    if function is None:
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # one of C, which does not say
        return
    try:
        signature.bind(None, None, {})
    except TypeError as error:
        raise InvalidInput(
            f"hindsight_goals: expected {name}({_ACHIEVED}, {_DESIRED}, info), as Gymnasium-Robotics' environments "
            f"have it, and that of {env_id!r} is {name}{signature} ({error}); give it these three arguments"
        ) from None


def _as_shown(space: Any, interface: Interface) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """From goals as they are stored to goals as the environment shows them, [N, ...] each."""
    entry = entries_of(interface.observations)[_ACHIEVED]
    starts = np.array(entry.starts if isinstance(entry, Categories) else 0, np.int64)
    shape, dtype = cast("tuple[int, ...]", space.shape), space.dtype
    return lambda stored: (stored + starts if starts.any() else stored).reshape(-1, *shape).astype(dtype)
