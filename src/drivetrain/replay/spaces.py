"""From the spaces of a Gymnasium environment to the spec of a replay, without importing Gymnasium.

A space is known by the name of its class or of one it derives from, and by its attributes, so that
Gymnasium's own, those of its vector environments and look-alikes all serve.
"""

from typing import Any

from drivetrain.core.errors import InvalidInput

_ARRAYS = ("Box", "MultiDiscrete", "MultiBinary")
_KNOWN = (*_ARRAYS, "Discrete", "Dict", "Tuple")


def spec_of(env: Any) -> dict[str, Any]:
    """The spec `{"obs": ..., "action": ...}` of one step of a Gymnasium environment, single or vector.

    What `Replay.for_env` goes by; further fields may be added to it, and `memory_report` takes it.

    Args:
        env: With `observation_space` and `action_space`, or the `single_` ones of a vector environment.

    Returns:
        A dict for `Replay(capacity, spec)`, nested as the spaces are.

    Raises:
        InvalidInput: It has no spaces, or one whose items have no fixed size.
    """
    return {
        "obs": _spec(_space(env, "observation_space"), "obs"),
        "action": _spec(_space(env, "action_space"), "action"),
    }


def _space(env: Any, name: str) -> Any:
    space = getattr(env, f"single_{name}", None)
    space = getattr(env, name, None) if space is None else space
    if callable(space) and not hasattr(space, "sample"):
        raise InvalidInput(
            f"for_env: {name} of {type(env).__name__} is a method, as in gymnax; expected one of Gymnasium's spaces: "
            "wrap the environment, or write the spec by hand"
        )
    if space is None:
        raise InvalidInput(
            f"for_env: expected an environment with {name} (or single_{name}), got {type(env).__name__}; "
            "make it by gymnasium.make, or write the spec by hand"
        )
    return space


def _spec(space: Any, where: str) -> Any:
    kind = next((cls.__name__ for cls in type(space).__mro__ if cls.__name__ in _KNOWN), None)
    if kind == "Dict":
        return {key: _spec(inner, f"{where}/{key}") for key, inner in space.spaces.items()}
    if kind == "Tuple":
        return [_spec(inner, f"{where}/{index}") for index, inner in enumerate(space.spaces)]
    if kind == "Discrete":
        return (), space.dtype
    if kind in _ARRAYS:
        return tuple(space.shape), space.dtype
    raise InvalidInput(
        f"for_env: {where}: expected {', '.join(_KNOWN[:-1])} or Tuple, got {type(space).__name__}, whose items are no "
        "arrays of one fixed size; wrap the environment so that it gives such arrays, or write the spec by hand"
    )
