"""Arguments of a rollout as NumPy arrays, checked: what engines outside JAX start from."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import RolloutState, Settings, Tree
from drivetrain.sim.trace import Traced, describe

Array = npt.NDArray[Any]


def checked_inputs(traced: Traced, settings: Settings, state: RolloutState, actions: Tree
                   ) -> tuple[list[Array], Array, int, Array, list[Array]]:  # fmt: skip
    """Leaves of the state, keys, step, done and leaves of the actions, dense and in the types that were traced.

    Raises:
        InvalidInput: Something has another structure, shape or type.
    """
    num_envs, num_steps = settings.num_envs, settings.num_steps
    leaves = checked_tree("state.env", state.env, traced.state, (num_envs,))
    action_leaves = checked_tree("actions", actions, traced.action, (num_steps, num_envs))
    keys = checked_array("state.keys", state.keys, jax.ShapeDtypeStruct((2,), np.dtype("uint32")), (num_envs,))
    done = checked_array("state.done", state.done, jax.ShapeDtypeStruct((), np.dtype("bool")), (num_envs,))
    return leaves, keys, int(np.asarray(state.step)), done, action_leaves


def checked_tree(name: str, tree: Tree, expected: Tree, leading: tuple[int, ...]) -> list[Array]:
    """The leaves of a pytree."""
    if jax.tree.structure(tree) != jax.tree.structure(expected):
        raise InvalidInput(f"{name}: expected {jax.tree.structure(expected)}, got {jax.tree.structure(tree)}")
    named = jax.tree_util.tree_leaves_with_path(tree)
    return [
        checked_array(name + jax.tree_util.keystr(path), leaf, shape, leading)
        for (path, leaf), shape in zip(named, jax.tree.leaves(expected), strict=True)
    ]


def checked_array(name: str, leaf: Any, expected: Any, leading: tuple[int, ...]) -> Array:
    """One leaf; integers of another width are taken where no value changes."""
    array = np.asarray(leaf)
    whole = jax.ShapeDtypeStruct((*leading, *expected.shape), expected.dtype)
    fits = array.shape == whole.shape
    if fits and array.dtype != whole.dtype:
        same_kind = array.dtype.kind in "iu" and whole.dtype.kind in "iu"
        narrowed = array.astype(whole.dtype) if same_kind else array
        fits = same_kind and bool((narrowed == array).all())
        array = narrowed
    if not fits:
        raise InvalidInput(f"{name}: expected {describe(whole)}, got {describe(np.asarray(leaf))}")
    return np.ascontiguousarray(array)
