"""gymnax's environments in our form: unmodified, with keys and states equal to its own `step`.

gymnax's `step` resets by itself; ours must not, because the engines do. So this uses the two halves that
gymnax's `step` is made of. Source: gymnax 1.0, gymnax/environments/environment.py.
"""

import importlib
from dataclasses import dataclass
from typing import Any

import jax

from drivetrain.core.errors import InvalidInput
from drivetrain.core.extras import naming_extra
from drivetrain.sim.api import Tree, name_of


@dataclass(frozen=True)
class GymnaxEnvironment:
    """One of gymnax's environments, or a user's that derives from gymnax's class."""

    inner: Any

    @property
    def name(self) -> str:
        """Gymnax's own."""
        return name_of(self.inner)

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
    """The environment in our form: gymnax's are wrapped, others stay."""
    if isinstance(env, type):
        raise InvalidInput(f"env: expected an environment, got the class {env.__name__}: make one, {env.__name__}()")
    missing = [name for name in ("reset", "step", "action_space", "default_params") if not hasattr(env, name)]
    if missing:
        raise InvalidInput(
            f"env: expected an environment with reset, step, action_space and default_params, got "
            f"{type(env).__name__} without {', '.join(missing)}; sim.make(name) makes one of ours"
        )
    is_gymnax = all(hasattr(env, name) for name in ("step_env", "reset_env", "is_truncated"))
    return GymnaxEnvironment(env) if is_gymnax else env


def from_gymnax(env: Any, **options: Any) -> GymnaxEnvironment:
    """An environment of gymnax, by its name ("Breakout-MinAtar") or as an object.

    Args:
        env: gymnax's name of it, or an instance.
        options: For gymnax's `make`, where a name is given.

    Raises:
        InvalidInput: gymnax has no such environment, or refuses the options.
        MissingExtra: gymnax is not installed.
    """
    if not isinstance(env, str):
        return GymnaxEnvironment(env)
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
