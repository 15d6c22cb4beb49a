"""Parameters that a caller gives, held against those that an environment has: their places, sizes and numbers."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any

import jax
import jax.core
import numpy as np
import numpy.typing as npt
from jax.tree_util import DictKey, SequenceKey, keystr, tree_leaves_with_path

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import Environment, Tree, describe, dtype_of
from drivetrain.sim.ir.importer import is_key

Path = tuple[Any, ...]
"""Where a leaf of a pytree is, as JAX says it."""


def fitting(name: str, numbers: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The numbers in the type of the default, which holds them."""
    expected = f"{name}: expected numbers that fit {dtype.name}"
    if numbers.dtype.kind == "O":  # integers beyond 64 bits
        raise InvalidInput(f"{expected}, got {numbers.ravel()[0]}")
    alike = {"f": "fiu", "i": "iu", "u": "iu"}.get(dtype.kind, dtype.kind)
    if numbers.dtype.kind not in alike:
        value = "" if numbers.ndim else f" {numbers[()]}"
        raise InvalidInput(
            f"{expected}, got {numbers.dtype.name}{value}; give some of that kind, as default_params does"
        )
    with np.errstate(over="ignore"):
        cast = numbers.astype(dtype)
    lost = np.isfinite(numbers) & ~np.isfinite(cast) if dtype.kind == "f" else cast != numbers
    if lost.any():
        raise InvalidInput(f"{expected}, got {numbers[lost][0]}")
    return cast


def form_of(leaf: Any) -> jax.ShapeDtypeStruct | None:
    """Shape and type of a number or an array of numbers, as JAX takes it; None for a key, a text and the like."""
    if isinstance(leaf, bool | int | float):
        return jax.ShapeDtypeStruct((), jax.dtypes.canonicalize_dtype(np.asarray(leaf).dtype))  # XLA stays unused
    if not hasattr(leaf, "dtype") or is_key(leaf):
        return None
    return jax.ShapeDtypeStruct(tuple(leaf.shape), jax.dtypes.canonicalize_dtype(dtype_of(leaf)))


def numbers_of(name: str, leaf: Any) -> npt.NDArray[Any]:
    """What is given for a number, as NumPy's."""
    try:
        numbers = np.asarray(leaf)
    except (TypeError, ValueError):
        numbers = np.asarray("")
    if numbers.dtype.kind in "SU":
        got = "an array of texts" if isinstance(leaf, np.ndarray) else f"a {type(leaf).__name__}"
        raise InvalidInput(f"{name}: expected a number or an array, got {got}")
    return numbers


def nones(tree: Tree) -> list[Path]:
    """Where a pytree has None."""
    leaves = tree_leaves_with_path(tree, is_leaf=lambda x: x is None)
    return [path for path, leaf in leaves if leaf is None]


def check_places(usual: dict[Path, Any], named: dict[Path, Any], free: list[Path], is_same: bool) -> None:
    """Every number is where the defaults have one: no list, dictionary or None is in its place.

    Args:
        usual: Leaves of the defaults, and their places.
        named: Of the parameters.
        free: Where the defaults have None, which anything may replace.
        is_same: Whether these are of the type of the defaults. Of others, and where a sequence has another length, the
            trace will tell whether they are right.
    """
    for path in (path for path in named if path not in usual):
        depth = next((depth for depth in range(len(path)) if path[:depth] in usual), None)
        if depth is not None:
            got = {SequenceKey: "a list", DictKey: "a dictionary"}.get(type(path[depth]), "several values")
            raise InvalidInput(
                f"params{keystr(path[:depth])}: expected a number or an array, got {got}; numpy.asarray makes an array "
                "of numbers"
            )
        is_free = any(path[: len(place)] == place for place in free)
        if is_same and not is_free and not isinstance(path[-1], SequenceKey):
            known = ", ".join(keystr(place) for place in usual) or "none"
            raise InvalidInput(f"params{keystr(path)}: expected parameters of default_params, {known}; leave it out")
    for path in (path for path in usual if path not in named):
        if is_same and not isinstance(path[-1], SequenceKey):
            raise InvalidInput(
                f"params{keystr(path)}: expected a number or an array, got none; take that of default_params"
            )


def refuse_traced(named: dict[Path, Any]) -> None:
    """Values of a program that JAX traces."""
    for path, leaf in named.items():
        if isinstance(leaf, jax.core.Tracer):
            raise InvalidInput(
                f"params{keystr(path)}: expected numbers, got a value of a program that JAX traces; call "
                "sim.compile outside of jax.jit"
            )


def other_sizes(env: Environment, params: Tree) -> str:
    """The first parameter that has another size than its default, which may be right; nothing where there is none."""
    usual = dict(tree_leaves_with_path(env.default_params))
    for path, leaf in tree_leaves_with_path(params):
        expected = form_of(usual.get(path))
        if expected is not None and len(np.shape(leaf)) == len(expected.shape) and np.shape(leaf) != expected.shape:
            name = f"params{keystr(path)}"
            got = describe(numbers_of(name, leaf))
            return f"{name}: expected {describe(expected)}, as in default_params, got {got}"
    return ""
