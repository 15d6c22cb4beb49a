"""From Gymnasium's spaces to the trainer's interface, and which algorithm takes which.

observation space -> Observations, Encoder    what the environment says -> what is stored
action space      -> Actions, Decoder         what the agent says -> what the environment takes
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from drivetrain.core.errors import InvalidInput
from drivetrain.train.interface import (
    Actions,
    Arrays,
    BoxActions,
    Categories,
    DiscreteActions,
    Entries,
    Entry,
    Interface,
    Observations,
    Vector,
)

ACTIONS_OF: Mapping[str, tuple[type[Actions], ...]] = {
    "dqn": (DiscreteActions,),
    "ddpg": (BoxActions,),
    "td3": (BoxActions,),
    "sac": (BoxActions,),
}
"""Name of an algorithm: the kinds of actions that it chooses."""
_WORDS: Mapping[type[Actions], str] = {DiscreteActions: "discrete", BoxActions: "continuous"}


def algorithms_for(interface: Interface) -> tuple[str, ...]:
    """The algorithms that train on an environment."""
    return tuple(algo for algo, kinds in ACTIONS_OF.items() if isinstance(interface.actions, kinds))


def require_fit(interface: Interface, algo: str, name: str) -> None:
    """Check that an algorithm can train on an environment.

    Raises:
        InvalidInput: It cannot; names the environment, and those that can.
    """
    if algo in algorithms_for(interface):
        return
    wanted = " or ".join(_WORDS[kind] for kind in ACTIONS_OF[algo])
    found = _WORDS[type(interface.actions)]
    raise InvalidInput(
        f"environment {name!r}: {algo.upper()} needs {wanted} actions, and these are {found} "
        f"({interface.num_actions} of them); use {' or '.join(algorithms_for(interface))}, or another environment "
        "(`drivetrain envs` lists which algorithm takes which)"
    )


def actions_of(space: Any, name: str) -> Actions:
    """What an action space offers.

    Raises:
        InvalidInput: A kind that no algorithm chooses; `name` is the environment's.
    """
    if isinstance(space, spaces.Discrete):
        return DiscreteActions(count=int(space.n), start=int(space.start))
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise InvalidInput(
            f"environment {name!r}: expected Discrete or real-valued Box actions, got {space}; wrap it in "
            "an action wrapper of Gymnasium's and register that"
        )
    low, high = np.ravel(space.low).astype(float), np.ravel(space.high).astype(float)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise InvalidInput(
            f"environment {name!r}: expected actions with finite bounds, got {space}; wrap it in "
            "gymnasium.wrappers.RescaleAction or ClipAction with bounds and register that"
        )
    return BoxActions(low=tuple(low), high=tuple(high), shape=space.shape, dtype=str(space.dtype))


def decoder(actions: Actions) -> Callable[[Any], Any]:
    """From the agent's action to the environment's."""
    if isinstance(actions, DiscreteActions):
        start = actions.start
        return lambda action: int(action) + start
    low, high = np.array(actions.low), np.array(actions.high)
    middle, half, shape, dtype = (high + low) / 2, (high - low) / 2, actions.shape, np.dtype(actions.dtype)
    low, high = low.astype(dtype).reshape(shape), high.astype(dtype).reshape(shape)
    # Clipped: rounding must not carry -1 or 1 past the bounds, which some environments check.
    return lambda action: np.clip((middle + half * action).astype(dtype).reshape(shape), low, high)


def observations_of(space: Any, name: str) -> Observations:
    """What an observation space shows.

    Raises:
        InvalidInput: Its items have no fixed size, or are not known yet; `name` is the environment's.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        raise InvalidInput(
            f"environment {name!r}: expected Box or Discrete observations, got {space}; wrap it "
            "in gymnasium.wrappers.FlattenObservation and register that"
        )
    return _entry(space, name)


def _entry(space: Any, name: str) -> Entry:
    if isinstance(space, spaces.Discrete):
        return Categories(counts=(int(space.n),), starts=(int(space.start),))
    if not isinstance(space, spaces.Box):
        raise InvalidInput(
            f"environment {name!r}: expected Box or Discrete observations, got {space}; wrap it "
            "in gymnasium.wrappers.FlattenObservation and register that"
        )
    shape: tuple[int, ...] = space.shape
    if len(shape) >= 2 and space.dtype == np.uint8:
        raise InvalidInput(
            f"environment {name!r}: observations are images {shape}, and there is "
            "no convolutional network yet; choose one with vector observations"
        )
    return Vector(shape=(int(np.prod(shape)),))


def encoder(observations: Observations) -> Callable[[Any], Arrays]:
    """From the environment's observation to the one that is stored."""
    if isinstance(observations, Entries):
        parts = {name: _entry_encoder(entry) for name, entry in observations.entries}
        return lambda observation: {name: part(observation[name]) for name, part in parts.items()}
    return _entry_encoder(observations)


def _entry_encoder(observations: Entry) -> Callable[[Any], NDArray[Any]]:
    shape, dtype = observations.stored
    if isinstance(observations, Categories):
        starts = np.array(observations.starts, np.int64)
        return lambda observation: (np.ravel(observation) - starts).astype(dtype)
    return lambda observation: np.asarray(observation, dtype=dtype).reshape(shape)
