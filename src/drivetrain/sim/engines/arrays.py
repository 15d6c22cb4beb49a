"""Arguments of a rollout, checked, as arrays that engines outside JAX start from; and a kernel's call on them."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import RolloutState, Settings, Tree, describe
from drivetrain.sim.trace import Traced

Array = npt.NDArray[Any]


class Memory(Protocol):
    """Where the arrays of a kernel's call lie."""

    def taken(self, name: str, leaf: Any, expected: Any, leading: tuple[int, ...]) -> Any:
        """A caller's array in this memory; see `checked_array`."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """A new array."""
        ...


def call_kernel(
    traced: Traced,
    settings: Settings,
    memory: Memory,
    launch: Callable[[int, Sequence[Any]], None],
    state: RolloutState,
    actions: Tree,
    shared: Tree,
) -> tuple[RolloutState, dict[str, Tree]]:
    """Run a kernel on a caller's arrays.

    Args:
        launch: Takes the first step's number and keys, done, state, actions, shared; state, done, records to be
            written.

    Raises:
        InvalidInput: Something has another structure, shape or type.
    """
    leaves, keys, number, done, *given = checked_inputs(traced, settings, state, actions, shared, memory.taken)
    action_leaves, alike = given
    after = [memory.empty(leaf.shape, leaf.dtype) for leaf in (*leaves, done)]
    leading, record = (settings.num_steps, settings.num_envs), jax.tree.leaves(traced.record)
    records = [memory.empty((*leading, *leaf.shape), np.dtype(leaf.dtype)) for leaf in record]
    launch(number, [keys, done, *leaves, *action_leaves, *alike, *after, *records])
    env = jax.tree.unflatten(jax.tree.structure(traced.state), after[:-1])
    trajectory = jax.tree.unflatten(jax.tree.structure(traced.record), records)
    return RolloutState(env, keys, np.uint32(number + settings.num_steps), after[-1], None), trajectory


Taken = Callable[[str, Any, Any, tuple[int, ...]], Any]


def checked_inputs(traced: Traced, settings: Settings, state: RolloutState, actions: Tree, shared: Tree,
                   taken: Taken | None = None) -> tuple[list[Any], Any, int, Any, list[Any], list[Any]]:  # fmt: skip
    """Leaves of the state, keys, step, done, leaves of actions and of what is shared, dense and in the traced types.

    Args:
        taken: What each array goes through; `checked_array` when None.

    Raises:
        InvalidInput: Something has another structure, shape or type.
    """
    taken = taken or checked_array
    num_envs, num_steps = settings.num_envs, settings.num_steps
    leaves = checked_tree("state.env", state.env, traced.state, (num_envs,), taken)
    action_leaves = checked_tree("actions", actions, traced.action, (num_steps, num_envs), taken)
    keys = taken("state.keys", state.keys, jax.ShapeDtypeStruct((2,), np.dtype("uint32")), (num_envs,))
    done = taken("state.done", state.done, jax.ShapeDtypeStruct((), np.dtype("bool")), (num_envs,))
    alike = checked_tree("policy", shared, traced.shared, (), taken)
    return leaves, keys, int(np.asarray(state.step)), done, action_leaves, alike


def checked_tree(name: str, tree: Tree, expected: Tree, leading: tuple[int, ...], taken: Taken) -> list[Any]:
    """The leaves of a pytree."""
    if jax.tree.structure(tree) != jax.tree.structure(expected):
        raise InvalidInput(f"{name}: expected {jax.tree.structure(expected)}, got {jax.tree.structure(tree)}")
    named = jax.tree_util.tree_leaves_with_path(tree)
    return [
        taken(name + jax.tree_util.keystr(path), leaf, shape, leading)
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
    return np.asarray(array, order="C")


class Host:
    """NumPy's memory."""

    def taken(self, name: str, leaf: Any, expected: Any, leading: tuple[int, ...]) -> Array:
        """See `Memory`."""
        return checked_array(name, leaf, expected, leading)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """See `Memory`."""
        return np.empty(shape, dtype)
