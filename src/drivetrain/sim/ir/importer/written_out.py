"""Primitives that are programs in JAX here: they are traced where they stand, and no engine knows of them.

What XLA gives, up to rounding: the logarithm of the gamma function by the formula of XLA's own expansion, draws from
gamma distributions by JAX's own program, and what is asked of small matrices, a step of elimination after the other.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.sim.ir.importer.importer import Importer, Parts, handles

LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip
"""Of Lanczos's sum for g = 7, after the first, which is 1."""
HALF_PAST = 7.5
"""g + 1/2."""
MOST_ROWS = 64
"""Of matrices that are written out: a step of elimination for each, whose arrays are loops where they are large."""
MOST_PLACES = 128
"""Of a convolution's window."""


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


@handles("lgamma")
def _lgamma(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return written(at, eqn, inputs, log_gamma)


def log_gamma(x: jax.Array) -> jax.Array:
    """Log |gamma(x)|: Lanczos's approximation, and the reflection formula below 1/2."""
    reflected = x < 0.5
    z = jnp.where(reflected, -x, x - 1)
    total = jnp.ones_like(x)
    for k, factor in enumerate(LANCZOS):
        total = total + factor / (z + (k + 1))
    t = HALF_PAST + z
    log_t = math.log(HALF_PAST) + jnp.log1p(z / HALF_PAST)
    above = (z + 0.5 - t / log_t) * log_t + (0.5 * math.log(2 * math.pi) + jnp.log(total))
    part = abs(x) - jnp.floor(abs(x))
    log_sine = jnp.log(jnp.sin(math.pi * jnp.where(part > 0.5, 1 - part, part)))
    below = jnp.where(jnp.isfinite(log_sine), math.log(math.pi) - log_sine - above, -log_sine)
    return jnp.where(jnp.isinf(x), jnp.inf, jnp.where(reflected, below, above))


def small(at: Importer, eqn: Any, inputs: list[Parts], function: Callable[..., Any]) -> Sequence[Parts]:
    """A function of one or more small matrices, for each of an array of them."""
    shape = eqn.invars[0].aval.shape
    if shape[-1] > MOST_ROWS:
        what = f"the primitive `{eqn.primitive.name}` of matrices with {shape[-1]} rows"
        raise at.unsupported(what, f"use at most {MOST_ROWS} rows")
    for _ in shape[:-2]:
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


@handles("conv_general_dilated")
def _convolution(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    window = [eqn.invars[1].aval.shape[k] for k in eqn.params["dimension_numbers"].rhs_spec[2:]]
    if math.prod(window) > MOST_PLACES:
        what = f"a convolution with a window of {math.prod(window)} elements"
        raise at.unsupported(what, f"use one of at most {MOST_PLACES}, or write it with slices and sums")
    if eqn.params["batch_group_count"] != 1:
        raise at.unsupported("a convolution with groups of its batch", "use feature_group_count")
    dtype = eqn.outvars[0].aval.dtype
    return written(at, eqn, inputs, functools.partial(convolution, given=eqn.params, dtype=dtype))


def convolution(x: jax.Array, weights: jax.Array, given: dict[str, Any], dtype: Any) -> jax.Array:
    """For each place of the window, in order, the elements that meet it times its weights; the sum of all."""
    spec, groups = given["dimension_numbers"], given["feature_group_count"]
    x = x.transpose(spec.lhs_spec).astype(dtype)
    weights = weights.transpose(spec.rhs_spec).astype(dtype)
    around = [(low, high, by - 1) for (low, high), by in zip(given["padding"], given["lhs_dilation"], strict=True)]
    x = jax.lax.pad(x, jnp.zeros((), dtype), [(0, 0, 0), (0, 0, 0), *around])
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    shape = sizes_of(x.shape[3:], weights.shape[2:], given)
    weights = weights.reshape(groups, -1, *weights.shape[1:])
    total: Any = None
    for place in itertools.product(*map(range, weights.shape[3:])):
        starts = [k * by for k, by in zip(place, given["rhs_dilation"], strict=True)]
        steps = given["window_strides"]
        ends = [start + (size - 1) * step + 1 for start, size, step in zip(starts, shape, steps, strict=True)]
        part = jax.lax.slice(x, [0, 0, 0, *starts], [*x.shape[:3], *ends], [1, 1, 1, *steps])
        for channel in range(x.shape[2]):
            factors = weights[(slice(None), slice(None), channel, *place)]
            factors = factors.reshape(1, *factors.shape, *(1 for _ in shape))
            product = part[:, :, None, channel] * factors
            total = product if total is None else total + product
    whole = total.reshape(total.shape[0], -1, *shape)
    return whole.transpose([spec.out_spec.index(k) for k in range(len(spec.out_spec))])


def sizes_of(sizes: Sequence[int], window: Sequence[int], given: dict[str, Any]) -> list[int]:
    """How often a window fits along each dimension."""
    reach = [(k - 1) * by + 1 for k, by in zip(window, given["rhs_dilation"], strict=True)]
    return [(n - far) // step + 1 for n, far, step in zip(sizes, reach, given["window_strides"], strict=True)]
