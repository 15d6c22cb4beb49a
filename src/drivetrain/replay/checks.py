"""What is wrong with this input? For calls of every step, asked only where the fast path has turned it down.

Each function returns arrays that fit, or raises InvalidInput saying expected, got, where, remedy.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.replay.arguments import real_number, require_fraction, require_int, require_one_of
from drivetrain.replay.schema import FIRST, INITIAL, NEXT, PRIORITY, REWARD, Field, Schema

INITIAL_PRIORITIES = ("running_max", "buffer_max", "given")
"""Names for where the priority of a new row comes from, in the order of cpp/include/drivetrain/layout.hpp."""

WEIGHTS_BY = ("batch", "buffer")
"""What the importance weights of a sample are divided by the largest of."""

_REWRITABLE = (FIRST, NEXT, INITIAL, REWARD)
"""Kinds of fields that one row has to itself, and that say nothing of how its window ended."""

MAX_DRAWS = 2**31  # per call to sample, all batches together


def fitting_step(
    inputs: tuple[Field, ...],
    step: dict[str, Any],
    leading: tuple[int, ...],
    marks: npt.NDArray[np.bool_] | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """The step as contiguous arrays of the declared dtypes and shapes, for a flat `step`.

    Args:
        inputs: The fields.
        step: An array for each.
        leading: Their leading axes: environments, or steps and environments.
        marks: Which of the environments are meant; the numbers of others become 0. None: all.
    """
    _require_names(inputs, step, "add")
    expected = {field.name: field for field in inputs}
    return {name: _fitting(expected[name], value, leading, marks) for name, value in step.items()}


def _require_names(inputs: tuple[Field, ...], step: dict[str, Any], method: str) -> None:
    """Refuse a step, or several, that has other fields than these."""
    expected = [field.name for field in inputs]
    missing, extra = sorted(set(expected) - step.keys()), sorted(step.keys() - set(expected))
    if missing or extra:
        raise InvalidInput(
            f"{method}: expected exactly the fields {', '.join(expected)}"
            + (f"; missing {', '.join(missing)}" if missing else "")
            + (f"; not declared in the spec: {', '.join(extra)}" if extra else "")
        )


def fitting_steps(inputs: tuple[Field, ...], steps: dict[str, Any], num_envs: int) -> dict[str, npt.NDArray[Any]]:
    """The same for arrays of several steps, `[steps, environments, ...]`: as many as there are of rewards."""
    _require_names(inputs, steps, "extend")
    shape = _array('field "reward"', steps["reward"]).shape
    are_turned = len(shape) == 2 and shape[0] == num_envs != shape[1]
    if len(shape) != 2 or are_turned:
        remedy = "every array has these two axes first"
        if are_turned:  # as rollouts of TorchRL and Flashbax are
            remedy += ": swap them, array.swapaxes(0, 1)"
        elif len(shape) == 1 and num_envs == 1:
            remedy += ": give array[:, None] of each"
        elif len(shape) == 3 and shape[1:] == (num_envs, 1):
            remedy = "take the last axis away, array[..., 0]"
        raise InvalidInput(
            f"extend: expected rewards of [steps, {num_envs}], one per step and environment, got {list(shape)}; "
            f"{remedy}"
        )
    return fitting_step(inputs, steps, (shape[0], num_envs))


def _fitting(
    field: Field, value: Any, leading: tuple[int, ...], marks: npt.NDArray[np.bool_] | None
) -> npt.NDArray[Any]:
    shape = (*leading, *field.shape)

    def remedy(got: tuple[int, ...]) -> str:
        if too_long := no_last_axis(got, shape):
            return too_long
        if (*got, 1) == shape and got != field.shape:
            return "add the last axis, array[..., None]"
        if len(leading) > 1:
            return "give one row per step and environment, these two axes first"
        if got == field.shape:
            return "add the leading axis of environments, array[None]"
        if got == (1, *shape):
            return "add one step at a time, array[0], or several with extend"
        return "give one row per environment, leading axis first"

    array, is_number = _of_field(field, value, shape, remedy)
    if marks is not None and is_number:
        array = np.where(marks, array, np.zeros((), array.dtype))
    where = _where(field)
    if field is PRIORITY:
        _require_priorities(where, array)
    elif field.kind == REWARD:
        require_finite(where, array)
    if array.dtype != field.dtype and not (field.kind == REWARD and array.dtype == np.float64):  # summed as it is
        array = as_float32(array)
    return np.require(array, requirements=("C", "A"))


def as_float32(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Numbers within float32 as rows keep them: those too small are 0, also where NumPy was told to raise."""
    with np.errstate(under="ignore"):
        return array.astype(np.float32)


def _where(field: Field) -> str:
    return f'field "{field.name}"'


def _of_field(
    field: Field, value: Any, shape: tuple[int, ...], remedy: Callable[[tuple[int, ...]], str]
) -> tuple[npt.NDArray[Any], bool]:
    """An array of this shape and of the field's dtype, or of any real one where numbers are meant; whether they are.

    Args:
        field: Whose it is.
        value: The array.
        shape: What it should have.
        remedy: What to do about another shape.
    """
    where, wanted = _where(field), f"{field.dtype}{list(shape)}"
    if not hasattr(value, "__array_interface__"):  # what NumPy's arrays and scalars have
        raise InvalidInput(f"{where}: expected a NumPy array {wanted}, got {type(value).__name__}; use np.asarray")
    array: npt.NDArray[Any] = np.asarray(value)
    got = f"{array.dtype}{list(array.shape)}"
    if array.shape != shape:
        raise InvalidInput(f"{where}: expected {wanted}, got {got}; {remedy(array.shape)}")
    is_number = (field.kind == REWARD or field is PRIORITY) and array.dtype.kind in "fiub"
    if array.dtype != field.dtype and not is_number:
        cast_it = f"cast it with .astype({repr(str(field.dtype)) if field.dtype.names is None else field.dtype})"
        if field.name.split("/")[0] in ("obs", "action", "next_obs"):
            cast_it += f", or declare {array.dtype} in the spec"
        raise InvalidInput(f"{where}: expected {wanted}, got {got}; {cast_it}")
    return array, is_number


def fitting_fields(
    schema: Schema, values: dict[str, Any], leading: tuple[int, ...]
) -> list[tuple[int, npt.NDArray[Any]]]:
    """New contents of fields of rows: where each stands in the schema, and a contiguous array `[*leading, ...]`.

    Args:
        schema: Of the replay.
        values: By flat names.
        leading: Shape of the keys.
    """
    places = {field.name: place for place, field in enumerate(schema.fields) if field.kind in _REWRITABLE}
    if not values:
        raise InvalidInput(
            f"update_fields: expected new contents of a field, such as {next(iter(places))}=..., got none"
        )
    for name in values:
        if name in places:
            continue
        why = "there is no such field"
        if any(field.name == name for field in schema.fields):
            shared = name.split("/")[0] in ("obs", "next_obs")
            why = "rows share their observations" if shared else "how an episode ended stays"
        raise InvalidInput(f'update_fields: expected fields among {", ".join(places)}, got "{name}": {why}')
    fitting: list[tuple[int, npt.NDArray[Any]]] = []
    for name, value in values.items():
        field = schema.fields[places[name]]
        shape = (*leading, *field.sampled_shape)
        array, is_number = _of_field(field, value, shape, _per_key(shape))
        if is_number:
            require_finite(_where(field), array)
            array = as_float32(array)
        fitting.append((places[name], np.require(array, requirements=("C", "A"))))
    return fitting


def _per_key(shape: tuple[int, ...]) -> Callable[[tuple[int, ...]], str]:
    """From a shape that came in place of this one, of rows by their keys, to what to do about it."""
    return lambda got: no_last_axis(got, shape) or "give one row per key, the axes of the keys first"


def no_last_axis(got: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """What to do about one axis too much, as other replays want rewards and ends; empty where that is not it."""
    return "take the last axis away, array[..., 0]" if got == (*wanted, 1) else ""


def fitting_marks(where: Any, num_envs: int) -> npt.NDArray[np.bool_]:
    """Which environments of a writer are meant, as a contiguous array of Booleans."""
    marks = _array("where", where)
    if marks.dtype != np.bool_ or marks.shape != (num_envs,):
        raise InvalidInput(
            f"where: expected bool[{num_envs}], got {marks.dtype}{list(marks.shape)}; give one Boolean per environment"
        )
    return np.ascontiguousarray(marks)


def fitting_marks_or_all(where: Any, num_envs: int) -> npt.NDArray[np.bool_]:
    """The same; None: every environment."""
    return np.ones(num_envs, np.bool_) if where is None else fitting_marks(where, num_envs)


def fitting_draws(batch_size: Any, beta: Any, mode: Any, num_batches: Any) -> tuple[int, float, str, int | None]:
    """The arguments of `sample` that say how to draw, as plain Python numbers and strings."""
    batch_size = require_int("batch_size", batch_size, least=1)
    beta = require_fraction("beta", beta, meaning="0: no correction, 1: full correction")
    mode = require_one_of("mode", mode, ("stratified", "iid"))
    return batch_size, beta, mode, require_num_batches(num_batches, batch_size)


def require_num_batches(num_batches: Any, batch_size: int) -> int | None:
    """`num_batches` as an int that leaves the draws of a call countable, or None."""
    if num_batches is None:
        return None
    return require_int("num_batches", num_batches, least=1, most=max(1, MAX_DRAWS // batch_size))


def fitting_out(schema: Schema, wanted: Sequence[tuple[str, np.dtype[Any], tuple[int, ...]]], out: Any) -> list[Any]:
    """The arrays of a sample to write into: the fields in their order, weights, keys, as `wanted` says."""
    data = out.data
    flat = schema.flatten(cast(dict[str, Any], data)) if isinstance(data, dict) else {}
    arrays: list[Any] = [flat.get(name) for name, _, _ in wanted[:-2]] + [out.weights, out.keys]
    for array, (name, dtype, shape) in zip(arrays, wanted, strict=True):
        if not is_writable_array(array, dtype, shape):
            raise InvalidInput(
                f"out: expected {name} to be a writable contiguous {dtype}{list(shape)}, got {_described(array)}; "
                "pass a Sample of replay.new_batch, or that an earlier call with the same sizes returned"
            )
    named = [(array, name) for array, (name, *_) in zip(arrays, wanted, strict=True) if array.nbytes]
    named.sort(key=lambda pair: pair[0].ctypes.data)
    for (array, name), (next_array, next_name) in pairwise(named):
        if next_array.ctypes.data < array.ctypes.data + array.nbytes:
            raise InvalidInput(
                f"out: expected arrays that share no memory, got {name} and {next_name} in the same; "
                "pass a Sample of replay.new_batch, or that an earlier call with the same sizes returned"
            )
    return arrays


def _described(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    array = cast(npt.NDArray[Any], value)
    kind = "" if array.flags.writeable else "read-only "
    kind += "" if array.flags.c_contiguous else "strided "
    return f"{kind}{array.dtype}{list(array.shape)}"


def fitting_update(keys: Any, priorities: Any, capacity: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Keys as uint64 and priorities as a float array of the same shape."""
    remedy = "; give those of a tensor by .detach().float().cpu().numpy()"
    key_array, priority_array = _uint64(keys), _array("priorities", priorities, remedy)
    if priority_array.dtype.kind not in "fiu":
        raise InvalidInput(
            f"priorities: expected real numbers, got {priority_array.dtype}; cast them with .astype('float32')"
        )
    if key_array.shape != priority_array.shape:
        raise InvalidInput(
            f"priorities: expected one per key, shape {list(key_array.shape)}, got {list(priority_array.shape)}; "
            f"{_one_per_key(key_array.shape, priority_array.shape)}"
        )
    is_native = priority_array.dtype.char in "fd" and priority_array.dtype.isnative
    with np.errstate(over="ignore", under="ignore"):  # what float64 cannot hold is refused just below
        values = priority_array if is_native else priority_array.astype(np.float64)
    _require_priorities("priorities", values)
    return fitting_keys(key_array, capacity), np.require(values, requirements=("C", "A"))


def _one_per_key(wanted: tuple[int, ...], got: tuple[int, ...]) -> str:
    """What to do about priorities of this shape for keys of that one."""
    if math.prod(got) == math.prod(wanted):  # networks with one output give [B, 1]
        return "give priorities.reshape(keys.shape)"
    if got[: len(wanted)] == wanted:
        return "make one of each row's, as of the steps of a sequence their maximum"
    return "give those of the same rows, in the same order"


def fitting_keys(keys: Any, capacity: int) -> npt.NDArray[np.uint64]:
    """Keys as a contiguous uint64 array, each of a row there could have been."""
    key_array = _uint64(keys)
    slots, generations = key_array & np.uint64(2**32 - 1), key_array >> np.uint64(32)
    foreign = (slots >= capacity) | (generations == 0) | (generations % 2 == 1)
    if foreign.any():
        at = tuple(int(i) for i in np.argwhere(foreign)[0])
        raise InvalidInput(
            f"keys{list(at)}: {int(key_array[at])} is no key of this replay; pass sample.keys back unchanged"
        )
    return np.require(key_array, requirements=("C", "A"))


def _array(where: str, value: Any, remedy: str = "") -> npt.NDArray[Any]:
    """As NumPy reads it, which tensors that need a gradient, lie on a GPU or hold bfloat16 do not let it."""
    try:
        return np.asarray(value)
    except Exception as error:  # whatever another library raises
        reason = " ".join(str(error).split())
        raise InvalidInput(
            f"{where}: expected an array that NumPy can read, got {type(value).__name__} ({reason}){remedy}"
        ) from error


def _uint64(keys: Any) -> npt.NDArray[np.uint64]:
    array = _array("keys", keys, remedy="; pass sample.keys back unchanged")
    if array.dtype != np.uint64:
        raise InvalidInput(f"keys: expected uint64 as in sample.keys, got {array.dtype}; pass them back unchanged")
    return array


def _require_priorities(where: str, values: npt.NDArray[Any]) -> None:
    bad = ~(np.isfinite(values) & (values >= 0) & (values <= np.finfo(np.float32).max))
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidInput(
            f"{where}{list(at)}: expected a finite float32 >= 0, got {values[at]}; pass |TD error|, "
            "and look for a diverging loss if it is not finite"
        )


def require_finite(where: str, values: npt.NDArray[Any]) -> None:
    """Refuse rewards that are no numbers within float32; says which.

    Raises:
        InvalidInput: One is none.
    """
    bad = ~(np.abs(values) <= np.finfo(np.float32).max)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidInput(
            f"{where}{list(at)}: expected finite numbers within float32, got {values[at]}; one such reward spoils "
            "whatever is learned from its window, so mend the environment"
        )


def require_initial_priority(value: Any, prioritized: Any, schema: Schema) -> str | float:
    """`value` as the name of a source of priorities, or as a priority."""
    number = math.nan
    if isinstance(value, str):
        known = value in INITIAL_PRIORITIES
    else:
        number = math.nan if isinstance(value, bool) else real_number(value)
        known = 0.0 <= number <= float(np.finfo(np.float32).max)
    if not known:
        names = ", ".join(f'"{name}"' for name in INITIAL_PRIORITIES)
        raise InvalidInput(f"initial_priority: expected {names} or a finite number >= 0, got {value!r}")
    if not prioritized and value != "running_max":
        raise InvalidInput(f"initial_priority: a uniform replay has no priorities, got {value!r}; use prioritized=True")
    if value == "given" and any(field.name.split("/")[0] == "priority" for field in schema.fields):
        raise InvalidInput('spec field "priority": the name is taken by initial_priority="given"; call it otherwise')
    return value if isinstance(value, str) else number


def is_writable_array(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    """Whether `value` is a C-contiguous writable array of exactly this dtype and shape."""
    if not isinstance(value, np.ndarray):
        return False
    array = cast(npt.NDArray[Any], value)
    return array.dtype == dtype and array.shape == shape and array.flags.carray
