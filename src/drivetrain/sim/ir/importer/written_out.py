"""Primitives that are programs in JAX here: they are traced where they stand, and no engine knows of them.

What XLA gives, up to rounding: draws from gamma distributions by JAX's own program, and what is asked of small
matrices, a step of elimination after the other.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.sim.ir.importer.importer import Importer, Parts, handles

MOST_ROWS = 64
"""Of matrices that are written out: a step of elimination for each, whose arrays are loops where they are large."""


def written(at: Importer, eqn: Any, inputs: list[Parts], function: Callable[..., Any]) -> Sequence[Parts]:
    """A function of an equation's inputs, written in its place."""
    shapes = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in eqn.invars]
    with jax.numpy_rank_promotion("allow"):  # whatever the author's own code may
        closed = jax.make_jaxpr(function)(*shapes)
    return at.inline(closed.jaxpr, closed.consts, inputs)


@handles("random_gamma")
def _random_gamma(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """Draws are rejected until one fits, by JAX's own program: one element after the other."""
    return written(at, eqn, inputs, functools.partial(eqn.primitive.impl, **eqn.params))


def small(
    at: Importer, eqn: Any, inputs: list[Parts], function: Callable[..., Any], num_axes: int = 2
) -> Sequence[Parts]:
    """A function of one or more small matrices, or what tells of their rows, for each of an array of them."""
    shape = eqn.invars[0].aval.shape
    if shape[-1] > MOST_ROWS:
        what = f"the primitive `{eqn.primitive.name}` of matrices with {shape[-1]} rows"
        raise at.unsupported(what, f"use at most {MOST_ROWS} rows")
    for _ in shape[:-num_axes]:
        function = jax.vmap(function)
    return written(at, eqn, inputs, function)


@handles("cholesky")
def _cholesky(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return small(at, eqn, inputs, cholesky)


def cholesky(x: jax.Array) -> jax.Array:
    """The lower triangle whose product with its transpose is x; NaN where x is not positive definite."""
    columns: list[jax.Array] = []
    roots: list[jax.Array] = []
    for k in range(x.shape[0]):
        roots.append(jnp.sqrt(x[0, 0]))
        below = x[1:, 0] / roots[k]
        columns.append(jnp.concatenate([jnp.zeros(k, x.dtype), roots[k][None], below]))
        x = x[1:, 1:] - below[:, None] * below
    return jnp.where(jnp.all(jnp.stack(roots) > 0), jnp.stack(columns, 1), jnp.nan)


@handles("lu")
def _lu(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    shape = eqn.invars[0].aval.shape
    if shape[-1] != shape[-2]:
        raise at.unsupported("the primitive `lu` of matrices that are not square", "use square ones")
    return small(at, eqn, inputs, lu)


def lu(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Both triangles in one matrix, the row that each was exchanged with, and the order of rows in the end."""
    num = x.shape[0]
    places = jnp.arange(num, dtype=jnp.int32)
    order, exchanged = places, list[jax.Array]()
    for k in range(num):
        pivot = k + jnp.argmax(abs(x[k:, k])).astype(jnp.int32)
        is_pivot, row = places == pivot, jax.lax.dynamic_index_in_dim(x, pivot, keepdims=False)
        x = jnp.where(is_pivot[:, None], x[k], x).at[k].set(row)
        order = jnp.where(is_pivot, order[k], order).at[k].set(order[pivot])
        exchanged.append(pivot)
        factors = jnp.where(row[k] != 0, x[k + 1 :, k] / row[k], x[k + 1 :, k])
        x = x.at[k + 1 :, k].set(factors)
        x = x.at[k + 1 :, k + 1 :].set(x[k + 1 :, k + 1 :] - factors[:, None] * row[k + 1 :])
    return x, jnp.stack(exchanged), order


@handles("lu_pivots_to_permutation")
def _lu_pivots_to_permutation(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    function = functools.partial(permutation, size=eqn.params["permutation_size"])
    return small(at, eqn, inputs, function, num_axes=1)


def permutation(exchanged: jax.Array, size: int) -> jax.Array:
    """The order of rows after each was exchanged with another, one after the other."""
    order = jnp.arange(size, dtype=exchanged.dtype)
    for k in range(exchanged.shape[0]):
        other = exchanged[k]
        order = order.at[k].set(order[other]).at[other].set(order[k])
    return order


@handles("triangular_solve")
def _triangular_solve(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    given = eqn.params
    names = ("left_side", "lower", "transpose_a", "unit_diagonal")
    return small(at, eqn, inputs, functools.partial(triangular_solve, **{name: given[name] for name in names}))


def triangular_solve(
    a: jax.Array, b: jax.Array, *, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> jax.Array:
    """X of a @ x = b, or of x @ a = b, where a, or its transpose, is a triangle."""
    if not left_side:
        solved = triangular_solve(a, b.T, left_side=True, lower=lower, transpose_a=not transpose_a,
                                  unit_diagonal=unit_diagonal)  # fmt: skip
        return solved.T
    a, lower = (a.T, not lower) if transpose_a else (a, lower)
    num = a.shape[0]
    rows: dict[int, jax.Array] = {}
    for i in range(num) if lower else reversed(range(num)):
        mine, rest = (0, slice(1, None)) if lower else (-1, slice(-1))
        rows[i] = b[mine] if unit_diagonal else b[mine] / a[mine, mine]
        b = b[rest] - a[rest, mine][:, None] * rows[i]
        a = a[rest, rest]
    return jnp.stack([rows[i] for i in range(num)])
