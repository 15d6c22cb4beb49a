"""Environments by name: ours, with the prefix gymnax/ those of gymnax, and of other modules as module:Name."""

import difflib
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from drivetrain.core.errors import InvalidInput
from drivetrain.core.importing import importing, require_module
from drivetrain.sim.gymnax import adapted, from_gymnax

# name -> module of `envs`, class
ENVIRONMENTS: dict[str, tuple[str, str]] = {
    "CartPole-v1": ("cartpole", "CartPole"),
    "Pendulum-v1": ("pendulum", "Pendulum"),
    "Acrobot-v1": ("acrobot", "Acrobot"),
    "MountainCar-v0": ("mountain_car", "MountainCar"),
    "MountainCarContinuous-v0": ("mountain_car_continuous", "MountainCarContinuous"),
    "Pong": ("pong", "Pong"),
    "Breakout": ("breakout", "Breakout"),
    "Snake": ("snake", "Snake"),
    "FourRooms": ("four_rooms", "FourRooms"),
    "Quadrotor": ("quadrotor", "Quadrotor"),
    "Knob": ("knob", "Knob"),
}


class UnknownOption(InvalidInput, TypeError):
    """An option that an environment has not; a TypeError, too, in Python's words for a keyword that nobody expects.

    TorchRL tries `gymnasium.make` with options of its own, and takes away the one that such an error names.
    """


def make(name: str, /, **options: Any) -> Any:
    """An environment by its name: "CartPole-v1" (ours; "drivetrain/CartPole-v1" too) or "gymnax/Asterix-MinAtar".

    "my_module:MyEnv", or "drivetrain/my_module:MyEnv", is what `MyEnv` of that module returns.

    Args:
        options: For the environment's class, or whatever makes it.

    Returns:
        A simulator of the form of `sim.api.Environment`, for `sim.compile`, `sim.make_vec` and `sim.explain`.

    Raises:
        InvalidInput: There is none of that name, or it has no such option.
        MissingExtra: It is one of gymnax's, which is not installed.
    """
    given: Any = name
    if not isinstance(given, str):
        raise InvalidInput(
            f"name: expected that of an environment, as 'CartPole-v1', got {given!r}; sim.compile and sim.make_vec "
            "take an environment as it is"
        )
    if name.startswith("gymnax/"):
        return from_gymnax(name.removeprefix("gymnax/"), **options)
    short = name.removeprefix("drivetrain/")
    if ":" in short:
        return _imported(short, options)
    if short not in ENVIRONMENTS:
        nearest = difflib.get_close_matches(short, ENVIRONMENTS, n=1, cutoff=0.5)
        prefix = name.removesuffix(short)  # without it the trainer and Gymnasium would find others
        remedy = f"did you mean {prefix + nearest[0]!r}?" if nearest else f"choose from {', '.join(ENVIRONMENTS)}"
        raise InvalidInput(f"there is no environment {name!r}: {remedy}")
    module, kind = ENVIRONMENTS[short]
    made = getattr(importlib.import_module(f"drivetrain.sim.envs.{module}"), kind)
    known = list(inspect.signature(made).parameters)
    for option in options:
        if option not in known:
            has = ", ".join(known) or "none"
            raise UnknownOption(
                f"unexpected keyword argument {option!r}: expected an option of {short}, which has {has}"
            )
    return made(**options)


def _imported(name: str, options: dict[str, Any]) -> Any:
    """What a module's class or function makes."""
    module, _, attribute = name.partition(":")
    try:
        require_module(module)
        with importing(module):
            maker = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"expected module:Name of a class or function that makes an environment, got {name!r} ({error})"
        ) from error
    if not callable(maker):
        raise InvalidInput(
            f"{name}: expected a class or function that makes an environment, got {type(maker).__name__}; name what "
            "makes it"
        )
    _require_options(name, maker, options)
    return adapted(maker(**options))


def _require_options(name: str, maker: Callable[..., Any], options: dict[str, Any]) -> None:
    """Refuse options that a class or function does not take, or lacks."""
    try:
        signature = inspect.signature(maker)
    except (ValueError, TypeError):  # of native code, say, which tells by itself
        return
    try:
        signature.bind(**options)
    except TypeError as error:
        raise InvalidInput(
            f"{name}: {error}: expected options of {name}{signature}; parameters of an environment go into params, "
            "or sim_params"
        ) from error
