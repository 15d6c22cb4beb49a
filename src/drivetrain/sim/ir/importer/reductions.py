"""Reductions, running totals, sorts and products of matrices."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from drivetrain.sim.ir.importer.elementwise import ordered_bits
from drivetrain.sim.ir.importer.importer import Importer, Parts, handles
from drivetrain.sim.ir.program import Value

LEAST_DOT = 64
"""Weights of a matrix from which a vector times it is one operation; fewer are written out, and fold."""


@handles("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_xor")
def _reduce(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    rows = at.builder.last(inputs[0][0], eqn.params["axes"])
    return at.builder.reduce(rows, eqn.primitive.name.removeprefix("reduce_"))


@handles("argmax", "argmin")
def _argument(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    rows = at.builder.last(inputs[0][0], eqn.params["axes"])
    index = at.builder.reduce(rows, eqn.primitive.name, "int32")
    return at.builder.convert(index, np.dtype(eqn.params["index_dtype"]).name)


def orders(num_axes: int, axis: int) -> tuple[list[int], list[int]]:
    """Of dimensions: with one of them last, and back from there."""
    order = [*(k for k in range(num_axes) if k != axis), axis]
    return order, [order.index(k) for k in range(num_axes)]


@handles("cumsum", "cumprod", "cummax", "cummin")
def _cumulate(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    (x,), b = inputs[0], at.builder
    order, back = orders(len(x.shape), eqn.params["axis"])
    turn = [len(order) - 1] if eqn.params["reverse"] else []
    rows = b.reverse(b.transpose(x, order), turn)
    done = b.reverse(b.emit("cumulate", (rows,), rows.shape, x.dtype, kind=eqn.primitive.name[3:]), turn)
    return b.transpose(done, back)


@handles("sort")
def _sort(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    b = at.builder
    order, back = orders(len(inputs[0][0].shape), eqn.params["dimension"])
    rows = [b.transpose(x, order) for (x,) in inputs]
    sorted_rows = b.emit_regions("sort", rows, rows, (), num_keys=eqn.params["num_keys"])
    return [(b.transpose(x, back),) for x in sorted_rows]


@handles("top_k")
def _top_k(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """The first k of a stable sort from the largest on, in IEEE's total order."""
    (x,), b = inputs[0], at.builder
    order, back = orders(len(x.shape), eqn.params.get("axis", -1) % len(x.shape))
    rows = b.transpose(x, order)
    falling = b.elementwise("not", ordered_bits(b, rows) if x.dtype == "float32" else rows)
    columns = [falling, rows, b.iota(rows.shape, len(order) - 1, "int32")]
    _, values, index = b.emit_regions("sort", columns, columns, (), num_keys=1)
    size = [*rows.shape[:-1], eqn.params["k"]]
    first = [b.slice(each, [0] * len(size), size, [1] * len(size)) for each in (values, index)]
    return [(b.transpose(each, back),) for each in first]


Side = tuple[Value, Sequence[int], Sequence[int]]
"""An operand of a product, its dimensions that are summed over, and the others."""


def is_vector(x: Value, free: Sequence[int]) -> bool:
    """Whether an operand has one row."""
    return prod(x.shape[k] for k in free) == 1


def vector_times_matrix(at: Importer, vector: Side, matrix: Side) -> Value:
    """The product, flat."""
    (x, summed_x, free_x), (y, summed_y, free_y), b = vector, matrix, at.builder
    row = b.reshape(b.transpose(x, [*summed_x, *free_x]), (x.size,))
    columns = b.reshape(b.transpose(y, [*summed_y, *free_y]), (x.size, y.size // x.size))
    return b.dot(row, columns)


@handles("dot_general")
def _dot_general(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """Products in the result's type from the start: `preferred_element_type` may be wider, and types may be mixed.

    Where that is of integers, and factors are floats, XLA converts the sums.
    """
    dtype, given = at.dtype_of(eqn.outvars[0].aval), [value for (value,) in inputs]
    within = "float32" if any(value.dtype == "float32" for value in given) else dtype
    return at.builder.convert(product(at, eqn, *(at.builder.convert(value, within) for value in given)), dtype)


def product(at: Importer, eqn: Any, x: Value, y: Value) -> Value:
    """All pairs of rows, summed over the last axis; a large one of a vector is an operation of its own."""
    (cx, cy), (bx, by) = eqn.params["dimension_numbers"]
    free_x = [k for k in range(len(x.shape)) if k not in (*cx, *bx)]
    free_y = [k for k in range(len(y.shape)) if k not in (*cy, *by)]
    inner = prod(x.shape[k] for k in cx)
    of_vector = is_vector(x, free_x) or is_vector(y, free_y)
    if of_vector and inner > 1 and not bx and x.dtype == "float32" and max(x.size, y.size) >= LEAST_DOT:
        shape = [*(x.shape[k] for k in free_x), *(y.shape[k] for k in free_y)]
        sides = [(x, cx, free_x), (y, cy, free_y)]
        return at.builder.reshape(vector_times_matrix(at, *(sides if is_vector(x, free_x) else sides[::-1])), shape)
    num_batch, num_free, b = len(bx), len(free_x), at.builder
    rows_x = b.transpose(x, [*bx, *free_x, *cx])
    rows_y = b.transpose(y, [*by, *free_y, *cy])
    shape = [*(x.shape[k] for k in (*bx, *free_x)), *(y.shape[k] for k in free_y), inner]
    rows_x = b.reshape(rows_x, [*rows_x.shape[: num_batch + num_free], inner])
    rows_y = b.reshape(rows_y, [*rows_y.shape[: num_batch + len(free_y)], inner])
    last = len(shape) - 1
    wide_x = b.broadcast(rows_x, shape, [*range(num_batch + num_free), last])
    wide_y = b.broadcast(rows_y, shape, [*range(num_batch), *range(num_batch + num_free, last), last])
    return b.reduce(b.elementwise("mul", wide_x, wide_y), "sum")
