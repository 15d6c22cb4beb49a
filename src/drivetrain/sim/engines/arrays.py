"""A caller's arrays, checked, as engines take them."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import jax
import jax.core
import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import Tree, describe
from drivetrain.sim.ir.importer import is_key

Array = npt.NDArray[Any]


class Form(NamedTuple):
    """Of an array that calls take or give."""

    name: str
    """In errors."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int

    @classmethod
    def of(cls, name: str, one: Any, leading: tuple[int, ...]) -> "Form":
        """Of an array of one environment, with axes before it."""
        shape, dtype = (*leading, *one.shape), np.dtype(one.dtype)
        return cls(name, shape, dtype, prod(shape) * dtype.itemsize)


def is_traced(tree: Tree) -> bool:
    """Whether a leaf is only known when a program of JAX runs."""
    return any_traced(jax.tree.leaves(tree))


def any_traced(leaves: Iterable[Any]) -> bool:
    """Whether one of the leaves is."""
    return any(type(leaf) is not np.ndarray and isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def checked_array(leaf: Any, form: Form) -> Array:
    """One leaf, without a copy where type and order fit; integers of another width are taken where no value changes."""
    if type(leaf) is np.ndarray and leaf.dtype == form.dtype and leaf.shape == form.shape:
        return leaf if leaf.flags.c_contiguous else np.asarray(leaf, order="C")
    name = form.name
    if isinstance(leaf, jax.core.Tracer):
        raise InvalidInput(
            f"{name}: expected an array, got a value of a program that JAX traces; inside jax.jit and lax.scan run the "
            'engines "native", "cuda" and "xla" (sim.compile(engine=...))'
        )
    array = on_host(name, leaf)
    fits = array.shape == form.shape
    if fits and array.dtype != form.dtype:
        fits = array.dtype.kind in "iu" and form.dtype.kind in "iu"
        narrowed = array.astype(form.dtype) if fits else array
        lost = narrowed != array
        if fits and lost.any():  # of others a NaN alone differs from itself
            raise InvalidInput(
                f"{name}: expected numbers that fit {form.dtype.name}, got {array[lost][0]} in {describe(array)}"
            )
        array = narrowed
    if not fits:
        remedy = "give one of that shape"
        if array.shape == form.shape:
            remedy = f"convert it, as with x.astype({form.dtype.name!r})"
        raise InvalidInput(f"{name}: expected {describe(form)}, got {describe(array)}; {remedy}")
    return np.asarray(array, order="C")


def checked_value(leaf: Any, form: Form) -> jax.Array | Array:
    """One leaf of JAX's, or a value of a program; integers are only widened, since nobody looks at values.

    Of what is not JAX's, as an array of NumPy's that a program closes over, the values are looked at.
    """
    if not isinstance(leaf, jax.Array):
        return checked_array(leaf, form)
    array = leaf
    if is_key(array):
        raise InvalidInput(
            f"{form.name}: expected {describe(form)}, got typed random keys; give their words, "
            "jax.random.key_data(keys)"
        )
    widens = array.dtype.kind in "iu" and form.dtype.kind in "iu" and np.can_cast(array.dtype, form.dtype)
    if array.shape != form.shape or not (array.dtype == form.dtype or widens):
        remedy = "give one of that shape"
        if array.shape == form.shape:
            remedy = (
                "of JAX's arrays, and inside its programs, nothing is converted that could lose something: convert it "
                f"yourself, as with x.astype({form.dtype.name!r})"
            )
        raise InvalidInput(f"{form.name}: expected {describe(form)}, got {describe(array)}; {remedy}")
    return array.astype(form.dtype)


def on_host(name: str, leaf: Any) -> Array:
    """A caller's array as NumPy's, in the byte order of this machine; without a copy where it can be."""
    if type(leaf) is np.ndarray and leaf.dtype.isnative:
        return leaf
    try:
        only_dlpack = hasattr(leaf, "__dlpack__") and not hasattr(leaf, "__array__")
        array: Array = np.from_dlpack(leaf) if only_dlpack else np.asarray(leaf)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        got = type(leaf).__name__
        raise InvalidInput(f"{name}: expected an array that NumPy can read, got a {got}: {error}") from error
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
