"""From Gymnasium's spaces to the trainer's interface, and which algorithm takes which.

observation space -> Observations, encoder    what the environment says -> what is stored
action space      -> Actions, decoder         what the agent says -> what the environment takes
"""

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import is_simulator
from drivetrain.train.config.parts import MOST
from drivetrain.train.environments.faults import NoSuchCategory
from drivetrain.train.interface import (
    Actions,
    Arrays,
    BoxActions,
    Categories,
    DiscreteActions,
    Entries,
    Entry,
    Image,
    Interface,
    MultiDiscreteActions,
    Observations,
    Vector,
)
from drivetrain.train.networks import SMALLEST_IMAGE

ACTIONS_OF: Mapping[str, tuple[type[Actions], ...]] = {
    "dqn": (DiscreteActions,),
    "ddpg": (BoxActions,),
    "td3": (BoxActions,),
    "sac": (BoxActions,),
    "ppo": (DiscreteActions, MultiDiscreteActions, BoxActions),
}
"""Name of an algorithm: the kinds of actions that it chooses."""
ACTION_WORDS: Mapping[type[Actions], str] = {
    DiscreteActions: "discrete",
    MultiDiscreteActions: "multi-discrete",
    BoxActions: "continuous",
}
_WHOLE = ("int8", "uint16", "int16")
_STORED_AS_THEY_ARE = ("uint8", *_WHOLE, "float32")
"""Box dtypes whose numbers float32 holds exactly; others are stored as float32."""
_WRAPPED = "wrap it in an action wrapper of Gymnasium's, in a function that makes the environment"
_ONE_SPACE = (
    "give one of drivetrain.sim.spaces from its action_space, Discrete, MultiDiscrete or Box, and take it apart in its "
    "`step`"
)
_BOUNDS_BY_WRAPPERS = (
    "leave out gymnasium.wrappers.ClipAction, which takes them away (ours are within the bounds as it is), or give "
    "some: gymnasium.wrappers.TransformAction(env, lambda action: action, Box(low, high, shape))"
)
_BOUNDS = "give the Box of its action_space some"
"""What to do about actions; simulators are no environments of Gymnasium's, whose wrappers could help."""
_Path = tuple[str | int, ...]


def algorithms_for(interface: Interface) -> tuple[str, ...]:
    """The algorithms that train on an environment."""
    return tuple(algo for algo, kinds in ACTIONS_OF.items() if isinstance(interface.actions, kinds))


def _or(names: Sequence[str]) -> str:
    """As "a, b or c"."""
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def require_fit(interface: Interface, algo: str, name: str) -> None:
    """Check that an algorithm can train on an environment.

    Raises:
        InvalidInput: It cannot; names the environment, and those that can.
    """
    fitting = algorithms_for(interface)
    if algo in fitting:
        return
    wanted = _or([ACTION_WORDS[kind] for kind in ACTIONS_OF[algo]])
    found = ACTION_WORDS[type(interface.actions)]
    use = f"use {_or(fitting)}, or" if fitting else "use"
    raise InvalidInput(
        f"environment {name!r}: {algo.upper()} needs {wanted} actions, and these are {found} "
        f"({interface.num_actions} of them); {use} another environment "
        "(`drivetrain envs` lists which algorithm takes which)"
    )


def actions_of(space: Any, name: str) -> Actions:
    """What an action space offers.

    Raises:
        InvalidInput: A kind that no algorithm chooses; `name` is the environment's.
    """
    _require_set(space, "action_space", name)
    if isinstance(space, spaces.Discrete):
        return DiscreteActions(count=int(space.n), start=int(space.start), dtype=str(space.dtype))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        counts, starts = _choices(space)
        return MultiDiscreteActions(counts=counts, starts=starts, shape=space.shape, dtype=str(space.dtype))
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise InvalidInput(
            f"environment {name!r}: expected Discrete, MultiDiscrete, MultiBinary or real-valued Box actions, got "
            f"{in_line(space)}; {_ONE_SPACE if is_simulator(name) else _WRAPPED}"
        )
    low, high = np.ravel(space.low).astype(float), np.ravel(space.high).astype(float)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise InvalidInput(
            f"environment {name!r}: expected actions with finite bounds, got {in_line(space)}; "
            f"{_BOUNDS if is_simulator(name) else _BOUNDS_BY_WRAPPERS}"
        )
    return BoxActions(low=tuple(low), high=tuple(high), shape=space.shape, dtype=str(space.dtype))


def decoder(actions: Actions, xp: ModuleType = np) -> Callable[[Any], Any]:
    """From the agent's action to the environment's; real and multi-discrete ones may be arrays of `jax.numpy`, `xp`."""
    if isinstance(actions, DiscreteActions):
        start, number = actions.start, np.dtype(actions.dtype).type
        return lambda action: number(int(action) + start)  # NumPy's, as the space's own sample() gives them
    shape, dtype = actions.shape, np.dtype(actions.dtype)
    if isinstance(actions, MultiDiscreteActions):
        starts = np.array(actions.starts)
        return lambda action: (action + starts).astype(dtype).reshape(shape)
    low, high = np.array(actions.low), np.array(actions.high)
    middle, half = high / 2 + low / 2, high / 2 - low / 2  # the halves: their sum may be beyond a float64
    low, high = low.astype(dtype).reshape(shape), high.astype(dtype).reshape(shape)
    # Clipped: rounding must not carry -1 or 1 past the bounds, which some environments check.
    # Of one number without an axis, NumPy's clip makes no array, which the space's own sample() is.
    return lambda action: xp.asarray(xp.clip((middle + half * action).astype(dtype).reshape(shape), low, high))


def observations_of(space: Any, name: str, frame_stack: int = 1) -> Observations:
    """What an observation space shows.

    Args:
        space: Of the wrapped environment.
        name: The environment's.
        frame_stack: Frames that its arrays begin with; 1: they have no axis for it.

    Raises:
        InvalidInput: Its items have no fixed size.
    """
    _require_set(space, "observation_space", name)
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return _entry(space, name, frame_stack)
    leaves = list(_leaves(space, ()))
    named = {_joined(path): _entry(leaf, name, frame_stack, path) for path, leaf in leaves}
    if len(named) < len(leaves) or "" in named:
        raise InvalidInput(
            f"environment {name!r}: expected a dict or tuple of observations with names of their own, got "
            f"{in_line(space)}; names of nested entries are joined by dots, which stand for slashes, too: rename one"
        )
    return Entries(entries=tuple(named.items()), paths=tuple(path for path, _ in leaves))


def in_line(space: Any) -> str:
    """What Python writes for a space, which has a line for each row of its numbers, as part of a sentence."""
    return " ".join(str(space).split())


def _require_set(space: Any, attribute: str, name: str) -> None:
    if not isinstance(space, spaces.Space):
        got = "and it has none" if space is None else f"got {type(space).__module__}.{type(space).__qualname__}"
        raise InvalidInput(
            f"environment {name!r}: expected a space of Gymnasium's as its {attribute}, {got}; set it where the "
            "environment is made"
        )
    if _is_empty(space):
        raise InvalidInput(
            f"environment {name!r}: expected a number or more in its {attribute}, got {in_line(space)}; leave it out"
        )


def _is_empty(space: Any) -> bool:
    """Whether there is nothing in it, or in one of its entries."""
    leaves = leaves_of(space)
    return not leaves or any(leaf.shape is not None and 0 in leaf.shape for leaf in leaves)


def leaves_of(space: Any) -> list[Any]:
    """The spaces within dicts and tuples, however deep; of any other it alone."""
    return [leaf for _, leaf in _leaves(space, ())]


def _joined(path: _Path) -> str:
    """The name of an entry. The replay keeps slashes for its own."""
    return ".".join(map(str, path)).replace("/", ".")


def _leaves(space: Any, path: _Path) -> Iterator[tuple[_Path, Any]]:
    if isinstance(space, spaces.Dict):
        inner: Any = space.spaces.items()
    elif isinstance(space, spaces.Tuple):
        inner = enumerate(space.spaces)
    else:
        yield path, space
        return
    for key, value in inner:
        yield from _leaves(value, (*path, key))


def _entry(space: Any, name: str, frame_stack: int, path: _Path = ()) -> Entry:
    if isinstance(space, spaces.Box):
        return _box(space, frame_stack)
    if isinstance(space, spaces.MultiBinary):
        return Vector(shape=(int(np.prod(space.shape)),), dtype="int8", is_binary=True)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        counts, starts = _choices(space)
        if max(counts) > MOST:
            raise InvalidInput(
                f"environment {name!r}: expected at most 2^31 - 1 values of what is discrete in an observation, got "
                f"{in_line(space)}; show several choices in its place, or bits (MultiBinary)"
            )
        return Categories(counts=counts, starts=starts)
    where = f" as {_joined(path)!r}" if path else ""
    leave_out = f"leave that entry out (leave_out {path[0]}), or " if path and isinstance(path[0], str) else ""
    raise InvalidInput(
        f"environment {name!r}: expected Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple observations, got "
        f"{in_line(space)}{where}, whose items have no fixed size; {leave_out}wrap it in an observation wrapper of "
        "Gymnasium's, in a function that makes the environment"
    )


def _box(space: spaces.Box, frame_stack: int) -> Entry:
    shape: tuple[int, ...] = space.shape
    frame = shape[1:] if frame_stack > 1 else shape
    is_bytes = space.dtype == np.uint8 and bool(np.all(space.low == 0) and np.all(space.high == 255))
    axes = _image_axes(frame) if is_bytes else ""
    if axes:
        return Image(shape=shape, axes="K" + axes if frame_stack > 1 else axes)
    flat = (int(np.prod(frame)),)
    dtype = "uint8" if space.dtype == np.bool_ else str(space.dtype)
    return Vector(
        shape=(frame_stack, *flat) if frame_stack > 1 else flat,
        dtype=dtype if dtype in _STORED_AS_THEY_ARE else "float32",
        scale=1 / 255 if is_bytes else 1.0,
    )


def as_real(observations: Observations) -> Observations:
    """The same with numbers of other kinds than bytes stored as float32, as is needed where they are normalised."""
    if isinstance(observations, Entries):
        entries = tuple((name, _as_real(entry)) for name, entry in observations.entries)
        return dataclasses.replace(observations, entries=entries)
    return _as_real(observations)


def _as_real(entry: Entry) -> Entry:
    is_whole = isinstance(entry, Vector) and entry.dtype in _WHOLE and not entry.is_binary
    return dataclasses.replace(entry, dtype="float32") if is_whole else entry


def _image_axes(frame: tuple[int, ...]) -> str:
    """The axes of a picture that the convolutional network can take; "" where it is none."""
    if len(frame) == 2:
        axes = "HW"
    elif len(frame) == 3:
        axes = "HWC" if frame[2] <= min(frame[:2]) else "CHW"
    else:
        return ""
    return axes if all(frame[axes.index(side)] >= SMALLEST_IMAGE for side in "HW") else ""


def _choices(space: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Counts and starts of discrete choices, flattened."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),), (int(space.start),)
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return (2,) * size, (0,) * size
    return tuple(int(n) for n in np.ravel(space.nvec)), tuple(int(n) for n in np.ravel(space.start))


def shapes_of(space: Any) -> dict[str, tuple[int, ...]]:
    """The shape of each entry of the environment's observations; of one that is no dict or tuple under the name ""."""
    return {_joined(path): leaf.shape for path, leaf in _leaves(space, ())}


def encoder(observations: Observations, shapes: Mapping[str, tuple[int, ...]]) -> Callable[[Any], Arrays]:
    """From the environment's observation, of these shapes and no others, to the one that is stored."""
    if isinstance(observations, Entries):
        parts = [
            (name, path, _entry_encoder(entry, shapes.get(name, ()), name))
            for (name, entry), path in zip(observations.entries, observations.paths, strict=True)
        ]
        return lambda observation: {
            name: part(functools.reduce(operator.getitem, path, observation)) for name, path, part in parts
        }
    return _entry_encoder(observations, shapes.get("", ()))


def _entry_encoder(entry: Entry, given: tuple[int, ...], name: str = "") -> Callable[[Any], NDArray[Any]]:
    shape, dtype = entry.stored
    if isinstance(entry, Categories):
        return _categories_encoder(entry, given, name)
    kept_as = np.dtype(dtype)

    def encode(observation: Any) -> NDArray[Any]:
        if type(observation) is np.ndarray and observation.dtype == kept_as and observation.shape == shape == given:
            return observation  # the usual case
        # Widths may differ, kinds may not: a picture in 0..1 is none in 0..255.
        array = _of_shape(observation, given)
        kept = array.astype(kept_as, casting="same_kind", copy=False)
        if kept_as.kind in "iu" and kept.dtype != array.dtype and not np.array_equal(kept, array):
            beyond = array.ravel()[int((kept != array).argmax())]
            raise OverflowError(f"{beyond} is beyond {kept_as}, as which its space declares it")
        return kept.reshape(shape)

    return encode


def _of_shape(observation: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """As an array, if it is of that shape, or is one number: the numbers of another would come to lie elsewhere."""
    array = np.asarray(observation)
    if array.shape != shape and array.size != 1:
        raise ValueError
    return array


def _categories_encoder(entry: Categories, given_shape: tuple[int, ...], name: str) -> Callable[[Any], NDArray[Any]]:
    """Numbers from 0. The network would take a value that the space does not have for none at all."""
    (shape, dtype), starts, counts = entry.stored, np.array(entry.starts, np.int64), np.array(entry.counts, np.int64)

    def encode(observation: Any) -> NDArray[Any]:
        given = _of_shape(observation, given_shape).ravel().astype(np.int64, casting="same_kind", copy=False)
        if given.shape != shape:
            raise ValueError
        indices = given - starts
        is_outside = (indices < 0) | (indices >= counts)
        if is_outside.any():
            at = int(is_outside.argmax())
            raise NoSuchCategory(name, int(given[at]), entry.starts[at], entry.counts[at])
        return indices.astype(dtype)

    return encode


def table() -> str:
    """Which algorithm takes which actions, as a table for the documentation."""
    kinds = {
        "Discrete": DiscreteActions,
        "MultiDiscrete, MultiBinary": MultiDiscreteActions,
        "Box of reals with finite bounds": BoxActions,
    }
    rows = [
        f"| `{algo}` | {' | '.join('yes' if kind in taken else 'no' for kind in kinds.values())} |"
        for algo, taken in ACTIONS_OF.items()
    ]
    return "\n".join([f"| algorithm | {' | '.join(kinds)} |", "|---|" + "---|" * len(kinds), *rows])
