"""Arguments of a rollout, checked, as arrays that engines outside JAX start from; and a kernel's call on them."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.core
import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import RolloutState, Settings, Tree, describe
from drivetrain.sim.ir.importer import is_key
from drivetrain.sim.trace import Shapes

Array = npt.NDArray[Any]
KEY, ENDED = jax.ShapeDtypeStruct((2,), np.dtype("uint32")), jax.ShapeDtypeStruct((), np.dtype("bool"))
"""Of an environment: its key's words, and whether its episode has ended."""
STEP = jax.ShapeDtypeStruct((), np.dtype("uint32"))
"""How many steps all environments have taken."""


class Memory(Protocol):
    """Where the arrays of a kernel's call lie."""

    def taken(self, name: str, leaf: Any, expected: Any, leading: tuple[int, ...]) -> Any:
        """A caller's array in this memory; see `checked_array`."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """A new array."""
        ...


Launch = Callable[[Any, Sequence[Any], Sequence[Any]], Sequence[Any]]
"""(first step's number; keys, done, state, actions, shared; state, done, records to be written) -> what was written."""


def call_kernel(
    traced: Shapes,
    settings: Settings,
    memory: Memory,
    launch: Launch,
    state: RolloutState,
    actions: Tree,
    shared: Tree = (),
) -> tuple[RolloutState, dict[str, Tree]]:
    """Run a kernel on a caller's arrays.

    Raises:
        InvalidInput: Something has another structure, shape or type.
    """
    leaves, keys, number, done, *given = checked_inputs(traced, settings, state, actions, shared, memory.taken)
    action_leaves, alike = given
    after = [memory.empty(leaf.shape, leaf.dtype) for leaf in (*leaves, done)]
    leading, record = (settings.num_steps, settings.num_envs), jax.tree.leaves(traced.record)
    records = [memory.empty((*leading, *leaf.shape), np.dtype(leaf.dtype)) for leaf in record]
    results = launch(number, [keys, done, *leaves, *action_leaves, *alike], [*after, *records])
    env = jax.tree.unflatten(jax.tree.structure(traced.state), results[: len(leaves)])
    trajectory = jax.tree.unflatten(jax.tree.structure(traced.record), results[len(after) :])
    return RolloutState(env, keys, steps_after(number, settings), results[len(leaves)], None), trajectory


def is_traced(tree: Tree) -> bool:
    """Whether a leaf is only known when a program of JAX runs."""
    leaves = jax.tree.leaves(tree)
    return any(type(leaf) is not np.ndarray and isinstance(leaf, jax.core.Tracer) for leaf in leaves)


Taken = Callable[[str, Any, Any, tuple[int, ...]], Any]


def checked_inputs(traced: Shapes, settings: Settings, state: RolloutState, actions: Tree, shared: Tree,
                   taken: Taken | None = None) -> tuple[list[Any], Any, Any, Any, list[Any], list[Any]]:  # fmt: skip
    """Leaves of the state, keys, step, done, leaves of actions and of what is shared, dense and in the traced types.

    The step is a number in Python, or a value of a program that JAX traces.

    Args:
        taken: What each array goes through; `checked_array` when None.

    Raises:
        InvalidInput: Something has another structure, shape or type.
    """
    taken = taken or checked_array
    num_envs, num_steps = settings.num_envs, settings.num_steps
    leaves = checked_parts(settings.carried, state.env, traced.state, (num_envs,), taken)
    action_leaves = checked_tree("actions", actions, traced.action, (num_steps, num_envs), taken)
    keys = taken("state.keys", state.keys, KEY, (num_envs,))
    done = taken("state.done", state.done, ENDED, (num_envs,))
    alike = checked_tree("policy", shared, traced.shared, (), taken)
    return leaves, keys, checked_step(state.step), done, action_leaves, alike


def checked_step(step: Any) -> Any:
    """How many steps were taken, as a number in Python, or as a program's value, which nobody can look at."""
    if isinstance(step, jax.core.Tracer):
        if step.shape != () or step.dtype.kind not in "iu":
            raise InvalidInput(f"state.step: expected uint32[], got {describe(step)}")
        return step
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if not 0 <= number < 2**32:
        raise InvalidInput(f"state.step: expected a uint32, got {step!r}")
    return number


def steps_after(number: Any, settings: Settings) -> Any:
    """How many steps were taken after a call that began at `number`: a uint32, which begins anew."""
    step = number + settings.num_steps
    return step if isinstance(step, jax.core.Tracer) else np.uint32(step % 2**32)


def checked_parts(name: Any, tree: Tree, expected: Tree, leading: tuple[int, ...], taken: Taken) -> list[Any]:
    """The leaves of a pytree, or of a pair of them, each with a name of its own."""
    if isinstance(name, str):
        return checked_tree(name, tree, expected, leading, taken)
    parts = zip(name, tree, expected, strict=True)
    return [leaf for part in parts for leaf in checked_parts(*part, leading, taken)]


def checked_tree(name: str, tree: Tree, expected: Tree, leading: tuple[int, ...], taken: Taken) -> list[Any]:
    """The leaves of a pytree."""
    leaves, found = jax.tree.flatten(tree)
    shapes, structure = jax.tree.flatten(expected)
    if found != structure:
        raise misfit(name, tree, structure, shapes, leading)
    names = names_of(name, structure)
    return [taken(*each, leading) for each in zip(names, leaves, shapes, strict=True)]


def misfit(name: str, tree: Tree, structure: Any, shapes: list[Any], leading: tuple[int, ...]) -> InvalidInput:
    """What to say of a pytree with another structure."""
    if structure.num_nodes > 1:
        return InvalidInput(f"{name}: expected {structure}, got {jax.tree.structure(tree)}")
    whole = jax.ShapeDtypeStruct((*leading, *shapes[0].shape), shapes[0].dtype)
    got = "none" if tree is None else f"a {type(tree).__name__}"
    return InvalidInput(f"{name}: expected one array {describe(whole)}, got {got}")


@functools.lru_cache
def names_of(name: str, structure: Any) -> tuple[str, ...]:
    """What errors call the leaves of a pytree: kept, as spelling them took a third of a small kernel's call."""
    numbered = jax.tree.unflatten(structure, range(structure.num_leaves))
    return tuple(name + jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(numbered))


def checked_array(name: str, leaf: Any, expected: Any, leading: tuple[int, ...]) -> Array:
    """One leaf, without a copy where type and order fit; integers of another width are taken where no value changes."""
    if type(leaf) is np.ndarray and leaf.dtype == expected.dtype and leaf.shape == (*leading, *expected.shape):
        return np.asarray(leaf, order="C")
    if isinstance(leaf, jax.core.Tracer):
        raise InvalidInput(
            f"{name}: expected an array, got a value of a program that JAX traces; inside jax.jit and lax.scan run the "
            'engines "native", "cuda" and "xla" (sim.compile(engine=...))'
        )
    array = on_host(name, leaf)
    whole = jax.ShapeDtypeStruct((*leading, *expected.shape), expected.dtype)
    fits = array.shape == whole.shape
    if fits and array.dtype != whole.dtype:
        fits = array.dtype.kind in "iu" and whole.dtype.kind in "iu"
        narrowed = array.astype(whole.dtype) if fits else array
        lost = narrowed != array
        if fits and lost.any():  # of others a NaN alone differs from itself
            raise InvalidInput(
                f"{name}: expected numbers that fit {whole.dtype.name}, got {array[lost][0]} in {describe(array)}"
            )
        array = narrowed
    if not fits:
        remedy = "give one of that shape"
        if array.shape == whole.shape:
            remedy = f"convert it, as with x.astype({whole.dtype.name!r})"
        raise InvalidInput(f"{name}: expected {describe(whole)}, got {describe(array)}; {remedy}")
    return np.asarray(array, order="C")


def checked_value(name: str, leaf: Any, expected: Any, leading: tuple[int, ...]) -> jax.Array | Array:
    """One leaf of JAX's, or a value of a program; integers are only widened, since nobody looks at values.

    Of what is not JAX's, as an array of NumPy's that a program closes over, the values are looked at.
    """
    if not isinstance(leaf, jax.Array):
        return checked_array(name, leaf, expected, leading)
    array, whole = leaf, jax.ShapeDtypeStruct((*leading, *expected.shape), np.dtype(expected.dtype))
    if is_key(array):
        raise InvalidInput(
            f"{name}: expected {describe(whole)}, got typed random keys; give their words, jax.random.key_data(keys)"
        )
    widens = array.dtype.kind in "iu" and whole.dtype.kind in "iu" and np.can_cast(array.dtype, whole.dtype)
    if array.shape != whole.shape or not (array.dtype == whole.dtype or widens):
        raise InvalidInput(
            f"{name}: expected {describe(whole)}, got {describe(array)}; of JAX's arrays, and inside its "
            "programs, nothing is converted that could lose something: reshape it, or convert it with astype"
        )
    return array.astype(whole.dtype)


def on_host(name: str, leaf: Any) -> Array:
    """A caller's array as NumPy's, in the byte order of this machine; without a copy where it can be."""
    try:
        only_dlpack = hasattr(leaf, "__dlpack__") and not hasattr(leaf, "__array__")
        array: Array = np.from_dlpack(leaf) if only_dlpack else np.asarray(leaf)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        got = type(leaf).__name__
        raise InvalidInput(f"{name}: expected an array that NumPy can read, got a {got}: {error}") from error
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
