"""What sampling gives: the rows of a batch, their importance weights, and their keys."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from drivetrain.core.docstrings import with_fields
from drivetrain.core.errors import InvalidInput


@with_fields
class Sample(NamedTuple):
    """Transitions drawn from a replay; leading axes `[B]`, or `[U, B]` with `num_batches=U`.

    The arrays are copies of the caller's own: neither inserts nor other samples change them. They
    begin at multiples of 64 bytes of one block of memory, which is used for another sample only
    after the caller has let go of all of them, and of every view of them.
    """

    data: dict[str, Any]
    """The fields of the spec, `next_obs` if there is `obs`, `reward` (n-step return), `terminated` and
    `truncated` of the window's last step, and `discount`: gamma^n, 0 after termination. Of sequences
    all of these per step, `[B, T, ...]`, and `mask`: where there is a step."""
    weights: npt.NDArray[np.float32]
    """Importance weights, divided by the largest of each batch, or that there can be (`weights_by`);
    all 1 in a uniform replay."""
    keys: npt.NDArray[np.uint64]
    """Opaque names of the rows, for `update_priorities`."""

    def map(self, function: Callable[[Any], Any]) -> "Sample":
        """A sample whose arrays are what `function` makes of these, in the same nesting.

        `sample.map(torch.from_dlpack)` and `sample.map(jax.dlpack.from_dlpack)` give tensors that share
        this sample's memory where the framework can; that memory lives as long as any of them. Of joined
        stacks (see `joined_frames`) the one array goes through `function`, and what it makes is sliced.

        Args:
            function: Of an array. Of joined stacks it has to leave the axes up to that of the frames as they are.

        Raises:
            InvalidInput: It has changed them.
        """
        runs = dict[_Which, Any]()
        joined = _joined(self.data)

        def mapped(array: Any) -> Any:
            run = _run_of(array)
            which = None if run is None else _which(run)
            if run is None or which is None or which not in joined:
                return function(array)
            if which not in runs:
                runs[which] = function(run)
            made, place = runs[which], _place_in(run, array)
            if tuple(made.shape[: len(place)]) != run.shape[: len(place)]:
                raise InvalidInput(
                    f"map: of joined stacks the first {len(place)} axes of {list(run.shape)} have to stay as they are, "
                    f"and function made {list(made.shape)}; apply it to joined_frames(obs, next_obs), or sample "
                    "without join_stacks"
                )
            return made[place]

        return Sample(_mapped(self.data, mapped, ""), function(self.weights), function(self.keys))


def joined_frames(obs: npt.NDArray[Any], next_obs: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int] | None:
    """The one array of which `obs` and `next_obs` of a sample with `join_stacks` are views, to move it at once.

    Args:
        obs: A field of the sample, `[..., k, *frame]`.
        next_obs: The same field of the next observation.

    Returns:
        `(frames, n)`, frames `[..., k + n, *frame]`, contiguous: along that axis obs is `[:k]` and next_obs `[n:]`,
        in NumPy as here, or after a transfer, or compiled. None where they are two arrays.

    Raises:
        InvalidInput: They are the other way round.
    """
    run, other = _run_of(obs), _run_of(next_obs)
    if run is None or other is None or _which(other) != _which(run):
        return None
    ends = _end_of(run, obs), _end_of(run, next_obs)
    if ends == ("last", "first"):
        raise InvalidInput("joined_frames: expected obs and the next_obs of the same sample, in this order")
    return (run, sum(run.shape) - sum(obs.shape)) if ends == ("first", "last") else None


_Which = tuple[int, tuple[int, ...]]
"""Which run of frames: where it begins, and its shape."""


def _which(run: npt.NDArray[Any]) -> _Which:
    return run.ctypes.data, run.shape


def _end_of(run: npt.NDArray[Any], stack: npt.NDArray[Any]) -> str:
    """At which end of its run a stack lies."""
    place = _place_in(run, stack)
    axis = len(place) - 1
    if place[axis].start == 0:
        return "first"
    return "last" if place[axis].stop == run.shape[axis] else "between"


def _joined(data: Any) -> set[_Which]:
    """The runs of which two stacks are here, one from the first frame and one up to the last: those that were joined.

    Any other view of an array, as of a file that is mapped, is an array by itself.
    """
    ends = dict[_Which, set[str]]()
    for array in _leaves(data):
        if (run := _run_of(array)) is not None:
            ends.setdefault(_which(run), set()).add(_end_of(run, array))
    return {which for which, found in ends.items() if found == {"first", "last"}}


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | tuple):
        inside = cast("dict[str, Any] | tuple[Any, ...]", value)
        for inner in inside.values() if isinstance(inside, dict) else inside:
            yield from _leaves(inner)
    else:
        yield value


def _run_of(array: Any) -> npt.NDArray[Any] | None:
    """The frames of which joined stacks are views: read-only, shorter along one axis and nothing else.

    Of one batch among several, `sample.data[...][index]`, it is the part that belongs to this batch.
    """
    if not isinstance(array, np.ndarray):
        return None
    stack = cast("npt.NDArray[Any]", array)
    run = stack.base
    if not isinstance(run, np.ndarray) or stack.flags.writeable:
        return None
    offset = stack.ctypes.data - run.ctypes.data
    while run.ndim > stack.ndim:
        index, offset = divmod(offset, run.strides[0]) if run.strides[0] > 0 else (len(run), 0)
        if index >= len(run):  # of a larger array in another order
            return None
        run = run[index]
    if stack.strides != run.strides or stack.ndim != run.ndim:
        return None
    differing = [axis for axis in range(stack.ndim) if stack.shape[axis] != run.shape[axis]]
    return run if len(differing) == 1 and stack.dtype == run.dtype else None


def _place_in(run: npt.NDArray[Any], array: npt.NDArray[Any]) -> tuple[slice, ...]:
    """Where in its run a stack is: slices up to the axis of frames."""
    axis = next(axis for axis in range(array.ndim) if array.shape[axis] != run.shape[axis])
    begin = (array.ctypes.data - run.ctypes.data) // run.strides[axis]
    return (*(slice(None),) * axis, slice(begin, begin + array.shape[axis]))


def _mapped(value: Any, function: Callable[[Any], Any], name: str) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(inner, function, f"{name}/{key}") for key, inner in cast(dict[str, Any], value).items()}
    if isinstance(value, tuple):
        inside = enumerate(cast(tuple[Any, ...], value))
        return tuple(_mapped(inner, function, f"{name}/{index}") for index, inner in inside)
    try:
        return function(value)
    except Exception as error:
        error.add_note(f'in field "{name[1:]}"')
        raise
