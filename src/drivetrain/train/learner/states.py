"""The learner's state as named arrays, for checkpoints, and back."""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import FileFormatError

_PREFIX = "state/"
_NUM_NAMED = 3  # names in a sentence


def named(state: Any) -> dict[str, Any]:
    """All arrays of a state, or their shapes, by names as "state/params/hidden0.weight"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {_name(path): leaf for path, leaf in leaves}


def saved(state: Any) -> dict[str, NDArray[Any]]:
    """Copies of all arrays of a state by name.

    As NumPy can keep them in a file: keys of random streams as their numbers, and of numbers that are not NumPy's
    own, as bfloat16, the bits.
    """
    return {name: _plain(leaf) for name, leaf in named(state).items()}


def restored(state: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """A state of the same structure as `state`, with the numbers that `saved` gave.

    Raises:
        FileFormatError: They are of another structure: one lacks what the other has, or has it otherwise.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(state)
    names = [_name(path) for path, _ in leaves]
    if unknown := sorted(name for name in arrays if name.startswith(_PREFIX) and name not in names):
        more = f" and {len(unknown) - _NUM_NAMED} more" if len(unknown) > _NUM_NAMED else ""
        raise _of_another_structure(", ".join(unknown[:_NUM_NAMED]) + more, "nothing of that name", "an array")
    return jax.tree.unflatten(
        structure, [_like(leaf, name, arrays) for name, (_, leaf) in zip(names, leaves, strict=True)]
    )


def owned(arrays: Any) -> Any:
    """A tree of arrays as JAX's own, copied without compiling anything."""
    return jax.tree.map(lambda array: _from_plain(array, _plain(array)), arrays)


def _plain(leaf: Any) -> NDArray[Any]:
    if _is_key(leaf):
        return np.array(jax.random.key_data(leaf))
    array = np.array(leaf)
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def _from_plain(leaf: Any, array: NDArray[Any]) -> jax.Array:
    if _is_key(leaf):
        return jax.random.wrap_key_data(jax.device_put(array), impl=jax.random.key_impl(leaf))
    return jax.device_put(array.view(np.asarray(leaf).dtype))


def _like(leaf: Any, name: str, arrays: Mapping[str, NDArray[Any]]) -> jax.Array:
    expected, found = _plain(leaf), arrays.get(name)
    if found is None or (found.shape, found.dtype) != (expected.shape, expected.dtype):
        got = "nothing of that name" if found is None else f"{found.dtype}{list(found.shape)}"
        raise _of_another_structure(name, f"{expected.dtype}{list(expected.shape)}", got)
    return _from_plain(leaf, found)


def _of_another_structure(names: str, expected: str, got: str) -> FileFormatError:
    return FileFormatError(
        f"the checkpoint's {names}: expected {expected}, got {got}; go on with the torso, the optimizer and the "
        "version of each that the run was begun with"
    )


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _name(path: Any) -> str:
    return _PREFIX + jax.tree_util.keystr(path, simple=True, separator="/")
