"""Parameters of simulators that are other than usual, and those that differ between training environments.

sim_params {name: number or [low, high]}
  `-- usual_params    numbers in their places: evaluations, and whatever steps one environment
  `-- drawn_params    and [num_envs] draws for each pair: the environments of a kernel
"""

import dataclasses
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import EnvironmentConfig


class UnfitParams(InvalidInput):
    """Numbers in `sim_params` that a simulator has no place for; says which, and what it has."""


def usual_params(env: Any, settings: EnvironmentConfig) -> Any:
    """A simulator's parameters with the numbers that are given; what is drawn elsewhere is as the simulator has it.

    Args:
        env: The simulator.
        settings: How environments are made; `sim_params` of it.

    Raises:
        InvalidInput: The simulator has no such parameter, or the number is of another kind than its own.
    """
    return _replaced(env, {name: value for name, value in settings.sim_params.items() if not isinstance(value, list)})


def drawn_params(env: Any, settings: EnvironmentConfig, num_envs: int, rng: np.random.Generator) -> Any:
    """The same with [num_envs] numbers for each pair, uniform between its two; whole numbers with both of them.

    Raises:
        InvalidInput: As `usual_params`.
    """
    drawn: dict[str, Any] = dict(settings.sim_params)
    for name, value in settings.sim_params.items():
        if isinstance(value, list):
            low, high = (_as_usual(env, name, bound) for bound in cast("list[Any]", value))
            _require_same_actions(env, settings, name, (low, high))
            drawn[name] = _drawn(rng, low, high, num_envs)
    try:
        return _replaced(env, drawn)
    except Exception as error:  # of the author's own
        if isinstance(error, InvalidInput):
            raise
        raise UnfitParams(
            f"sim_params: parameters of {_name_of(env)} do not hold a number for each environment ({error}); let what "
            "checks them pass arrays, or give one number"
        ) from error


def _require_same_actions(env: Any, settings: EnvironmentConfig, name: str, bounds: tuple[float, float]) -> None:
    """Refuse a pair on which the actions there are depend: all environments of a run have the same ones."""
    usual = _ends(env.action_space(usual_params(env, settings)))
    others = [_ends(env.action_space(_replaced(env, {name: bound}))) for bound in bounds]
    if any(str(other) != str(usual) for other in others):
        raise UnfitParams(
            f"sim_params: the actions of {_name_of(env)} depend on {name}, and all environments have the same ones; "
            f"expected one number, got {list(bounds)}"
        )


def _ends(space: Any) -> Any:
    """What tells a space from others of its kind."""
    if hasattr(space, "spaces"):
        parts: Any = space.spaces
        return [_ends(part) for part in (parts.values() if hasattr(parts, "values") else parts)]
    return [np.asarray(getattr(space, end)).tolist() for end in ("n", "nvec", "low", "high") if hasattr(space, end)]


def _drawn(rng: np.random.Generator, low: float, high: float, num_envs: int) -> NDArray[Any]:
    if isinstance(low, int) and isinstance(high, int):
        return rng.integers(low, high, num_envs, endpoint=True)
    return rng.uniform(low, high, num_envs)


def _replaced(env: Any, changes: dict[str, Any]) -> Any:
    usual: Any = env.default_params
    if not changes:
        return usual
    found: dict[str, Any] = {
        name: value if isinstance(value, np.ndarray) else _as_usual(env, name, value) for name, value in changes.items()
    }
    if isinstance(usual, dict):
        return {**_by_name(usual), **found}
    return usual._replace(**found) if hasattr(usual, "_replace") else dataclasses.replace(usual, **found)


def _as_usual(env: Any, name: str, value: Any) -> Any:
    """A number of the kind that the simulator has there."""
    known = _by_name(env.default_params)
    if name not in known:
        single = [other for other, value in known.items() if _is_number(value)]
        choice = f"choose from {', '.join(single)}" if single else "it has none that could be replaced by a number"
        raise UnfitParams(f"sim_params: {_name_of(env)} has no parameter {name!r}: {choice}")
    if not _is_number(known[name]):
        raise UnfitParams(
            f"sim_params: {name} of {_name_of(env)} is no single number, and cannot be given as one; let what makes "
            "the simulator take it (env_kwargs)"
        )
    default = np.asarray(known[name])
    most = float(np.finfo(np.float32).max if default.dtype.kind == "f" else np.iinfo(np.int32).max)
    least = -most if default.dtype.kind == "f" else float(np.iinfo(np.int32).min)
    if not least <= value <= most:
        bound = f"at most {most:.4g}" if value > most else f"at least {least:.4g}"
        raise UnfitParams(f"sim_params: {name} of {_name_of(env)}: expected a number of {bound}, got {value}")
    if default.dtype.kind == "f":
        return float(value)
    if not float(value).is_integer():
        raise UnfitParams(f"sim_params: {name} of {_name_of(env)}: expected a whole number, got {value}")
    return int(value)


def _is_number(value: Any) -> bool:
    """Whether a parameter is one number, which another can stand for."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # typed keys, rows of several lengths
        return False
    return not array.ndim and array.dtype.kind in "fiu"


def _name_of(env: Any) -> str:
    from drivetrain.sim.api import name_of  # imports jax: only where there is a simulator

    return name_of(env)


def _by_name(params: Any) -> dict[str, Any]:
    """Parameters of a dict, a dataclass or a named tuple."""
    if isinstance(params, dict):
        return dict(cast("dict[str, Any]", params))
    if dataclasses.is_dataclass(params):
        return {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
    return params._asdict() if hasattr(params, "_asdict") else {}
