"""The learner's state as named arrays, for checkpoints, and back."""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray


def saved(state: Any) -> dict[str, NDArray[Any]]:
    """Copies of all arrays of a state, by names as "state/params/hidden0.weight"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {_name(path): np.array(leaf) for path, leaf in leaves}


def restored(state: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """A state of the same structure as `state`, with the numbers that `saved` gave."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(state)
    return jax.tree.unflatten(structure, [jax.numpy.array(arrays[_name(path)]) for path, _ in leaves])


def _name(path: Any) -> str:
    return "state/" + jax.tree_util.keystr(path, simple=True, separator="/")
