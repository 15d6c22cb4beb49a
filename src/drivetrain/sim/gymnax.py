"""gymnax's environments in our form: unmodified, with keys and states equal to its own `step`.

gymnax's `step` resets by itself; ours must not, because the engines do. So this uses the two halves that
gymnax's `step` is made of, and refuses what others have put in its place, as gymnax's wrappers do. DeepSea has a `step`
of its own for two counts over episodes, which no reward or observation shows: here they begin anew with each episode.
Source: gymnax 1.0, gymnax/environments/environment.py.
"""

import importlib
from dataclasses import dataclass
from typing import Any, cast

import jax

from drivetrain.core.errors import InvalidInput
from drivetrain.core.extras import naming_extra
from drivetrain.sim.api import Tree


@dataclass(frozen=True)
class GymnaxEnvironment:
    """One of gymnax's environments, or a user's that derives from gymnax's class."""

    inner: Any

    @property
    def name(self) -> str:
        """Gymnax's own."""
        return str(self.inner.name)

    @property
    def default_params(self) -> Tree:
        """Gymnax's own."""
        return self.inner.default_params

    def reset(self, key: jax.Array, params: Tree) -> tuple[Tree, Tree]:
        """Gymnax's `reset_env`."""
        return self.inner.reset_env(key, params)

    def step(self, key: jax.Array, state: Tree, action: Any, params: Tree) -> Any:
        """Gymnax's `step_env`, and whether the time is over."""
        obs, after, reward, terminated, info = self.inner.step_env(key, state, action, params)
        return obs, after, reward, terminated, self.inner.is_truncated(after, params), info

    def action_space(self, params: Tree) -> Any:
        """Gymnax's own."""
        return self.inner.action_space(params)

    def observation_space(self, params: Tree) -> Any:
        """Gymnax's own."""
        return self.inner.observation_space(params)


def adapted(env: Any) -> Any:
    """The environment in our form: gymnax's are wrapped, others stay.

    Raises:
        InvalidInput: It is none, or one of gymnax's with a `step` or `reset` that would be left out.
    """
    if isinstance(env, type):
        raise InvalidInput(f"env: expected an environment, got the class {env.__name__}: make one, {env.__name__}()")
    missing = [name for name in ("reset", "step", "action_space", "default_params") if not hasattr(env, name)]
    if missing:
        if issubclass(type(env), tuple) and any(hasattr(part, "step_env") for part in env):
            raise InvalidInput(
                "env: expected an environment, got a tuple with one in it, as gymnax.make gives it beside its "
                "parameters: take it apart (env, params = gymnax.make(name)), or let sim.from_gymnax(name) make it"
            )
        raise InvalidInput(
            f"env: expected an environment in JAX with reset, step, action_space and default_params, got "
            f"{type(env).__name__} without {', '.join(missing)}; sim.make(name) makes one of ours, and one of another "
            "library needs an adapter that has them, as docs/sim.md shows"
        )
    if not all(hasattr(env, name) for name in ("step_env", "reset_env", "is_truncated")):
        return env
    for name in ("reset", "step"):
        owner = owner_of(env, name)
        if not owner.__module__.startswith("gymnax.environments."):
            raise InvalidInput(
                "env: expected an environment whose `step` and `reset` are gymnax's own, since engines call `step_env` "
                f"and `reset_env` in their place, got one with a `{name}` of {owner.__name__}: wrappers of gymnax "
                "reset by themselves; put what it does into step_env and reset_env, or into an environment of our "
                "form, which has neither"
            )
    return GymnaxEnvironment(env)


def owner_of(env: Any, name: str) -> type[Any]:
    """The class whose method is called as `env.name`, which may be that of an environment inside a wrapper."""
    method = getattr(env, name)
    function, holder = getattr(method, "__func__", method), getattr(method, "__self__", env)
    kinds: tuple[type[Any], ...] = type(holder).__mro__
    return next((kind for kind in kinds if vars(kind).get(name) is function), cast("type[Any]", type(env)))


def from_gymnax(env: Any, **options: Any) -> GymnaxEnvironment:
    """An environment of gymnax, by its name ("Breakout-MinAtar") or as an object.

    Args:
        env: gymnax's name of it, or an instance.
        options: For gymnax's `make`, where a name is given.

    Raises:
        InvalidInput: gymnax has no such environment, or refuses the options; or the object is none of gymnax's, or
            one whose `step` or `reset` are others than gymnax's own, as wrappers' are.
        MissingExtra: gymnax is not installed.
    """
    if not isinstance(env, str):
        if options:
            raise InvalidInput(
                f"{', '.join(options)}: options are for environments by name, got a {type(env).__name__}"
            )
        found = adapted(env)
        if not isinstance(found, GymnaxEnvironment):
            raise InvalidInput(
                f"env: expected gymnax's name of an environment, or one of its environments, got a "
                f"{type(env).__name__}; sim.compile and sim.make_vec take environments of our form as they are"
            )
        return found
    with naming_extra():
        gymnax: Any = importlib.import_module("gymnax")
    if env not in gymnax.registered_envs:
        raise InvalidInput(f"gymnax has no environment {env!r}: choose from {', '.join(gymnax.registered_envs)}")
    try:
        return GymnaxEnvironment(gymnax.make(env, **options)[0])
    except TypeError as error:
        if not options:
            raise
        raise InvalidInput(f"{', '.join(options)}: gymnax's {env} refuses these options: {error}") from error
