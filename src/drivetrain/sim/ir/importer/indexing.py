"""Reads and writes at computed places, gathers, scatters, dynamic slices, as integer arithmetic, `take` and `put`."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

from collections.abc import Sequence
from typing import Any

import numpy as np

from drivetrain.sim.ir.build import Builder, row_major
from drivetrain.sim.ir.importer.halves import is_half
from drivetrain.sim.ir.importer.importer import Importer, Parts, handles
from drivetrain.sim.ir.program import Value


def window_positions(b: Builder, starts: Sequence[tuple[int, Value]], shape: Sequence[int], sizes: Sequence[int],
                     out: Sequence[int], window_dims: Sequence[int], kept: Sequence[int],
                     batching: Sequence[tuple[int, int]] = ()) -> tuple[Value, Value]:  # fmt: skip
    """Where each element of windows lies in a flat array, and whether its whole window lies inside.

    Args:
        starts: (dimension of the array, first position along it), each position of the batch's shape.
        shape: Of the array.
        sizes: Of a window, along every dimension of the array.
        out: Shape of all windows together.
        window_dims: Dimensions of `out` along a window, in the order of `kept`; the others are the batch.
        kept: Dimensions of the array that a window has.
        batching: (dimension of the array, dimension of the batch) that run together.
    """
    strides = row_major(shape)
    batch_dims = [k for k in range(len(out)) if k not in window_dims]
    batch = [out[k] for k in batch_dims]
    position, inside = b.full(batch, 0, "int32"), b.full(batch, True, "bool")
    for dim, start in starts:
        last = min(shape[dim] - sizes[dim], np.iinfo(start.dtype).max)  # a narrow type may not reach the end
        limit, zero = b.full(batch, last, start.dtype), b.full(batch, 0, start.dtype)
        fits = b.elementwise("and", b.elementwise("ge", start, zero), b.elementwise("le", start, limit))
        inside = b.elementwise("and", inside, fits)
        clamped = b.convert(b.elementwise("min", b.elementwise("max", start, zero), limit), "int32")
        scaled = b.elementwise("mul", clamped, b.full(batch, strides[dim], "int32"))
        position = b.elementwise("add", position, scaled)
    for dim, batch_dim in batching:
        scaled = b.elementwise("mul", b.iota(batch, batch_dim, "int32"), b.full(batch, strides[dim], "int32"))
        position = b.elementwise("add", position, scaled)
    window = [sizes[k] for k in kept]
    offsets = np.zeros(window, np.int32)
    for axis, dim in enumerate(kept):
        offsets += (np.arange(sizes[dim]) * strides[dim]).reshape([-1 if k == axis else 1 for k in range(len(kept))])
    within = b.broadcast(b.const(offsets), out, window_dims)
    index = b.elementwise("add", b.broadcast(position, out, batch_dims), within)
    return index, b.broadcast(inside, out, batch_dims)


def components(b: Builder, indices: Value, dims: Sequence[int]) -> list[tuple[int, Value]]:
    """The columns of an index array, each with the dimension that it indexes."""
    size, batch = len(dims), indices.shape[:-1]
    return [(dim, b.view(indices, batch, k, [size * s for s in row_major(batch)])) for k, dim in enumerate(dims)]


def mode_of(eqn: Any) -> str:
    """What an out-of-range window does: CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS."""
    mode = eqn.params["mode"]
    return getattr(mode, "name", str(mode)).upper()


@handles("gather")
def _gather(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    words, (indices,) = inputs
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    shape, out = words[0].shape, eqn.outvars[0].aval.shape
    kept = [k for k in range(len(shape)) if k not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)]
    starts = components(at.builder, indices, numbers.start_index_map)
    batching = list(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    index, inside = window_positions(at.builder, starts, shape, sizes, out, numbers.offset_dims, kept, batching)
    taken = [at.builder.take(x, index) for x in words]
    if mode_of(eqn) == "FILL_OR_DROP":
        fill, half = eqn.params.get("fill_value"), is_half(eqn.outvars[0])
        beyond = [fill_value("float16" if half else x.dtype, fill) for x in taken]
        taken = [at.builder.elementwise("select", inside, x, at.builder.full(out, number, x.dtype))
                 for x, number in zip(taken, beyond, strict=True)]  # fmt: skip
    return [tuple(taken)]


def fill_value(dtype: str, given: Any) -> Any:
    """What a gather gives outside: as asked, in its type, or NaN, the smallest signed, the largest unsigned, True."""
    if given is not None:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(given).astype(dtype)  # as JAX does it, for its numbers
    if dtype.startswith("float"):
        return np.nan
    if dtype == "bool":
        return True
    return np.iinfo(dtype).max if dtype.startswith("u") else np.iinfo(dtype).min


SCATTERS = {
    "scatter": "set", "scatter-add": "add", "scatter_add": "add", "scatter-sub": "add",
    "scatter-mul": "mul", "scatter_mul": "mul",
    "scatter-max": "max", "scatter_max": "max", "scatter-min": "min", "scatter_min": "min",
}  # fmt: skip


@handles(*SCATTERS)
def _scatter(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    words, (indices,), updates = inputs
    numbers, name = eqn.params["dimension_numbers"], eqn.primitive.name
    if name == "scatter" and eqn.params.get("update_jaxpr") is not None:
        raise at.unsupported("a function of an element, as in x.at[i].apply(f)", "write x.at[i].set(f(x[i]))")
    if name == "scatter-sub":
        updates = tuple(at.builder.elementwise("neg", u) for u in updates)
    shape, out = words[0].shape, updates[0].shape
    absent = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    kept = [k for k in range(len(shape)) if k not in absent]
    sizes = [1] * len(shape)
    for dim, window_dim in zip(kept, numbers.update_window_dims, strict=True):
        sizes[dim] = out[window_dim]
    starts = components(at.builder, indices, numbers.scatter_dims_to_operand_dims)
    batching = list(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    index, inside = window_positions(at.builder, starts, shape, sizes, out, numbers.update_window_dims, kept, batching)
    if mode_of(eqn) == "CLIP":  # of promises that do not hold XLA drops what lies outside, too
        inside = at.builder.full(out, True, "bool")
    kind = SCATTERS[name]
    return [tuple(at.builder.put(x, index, u, inside, kind) for x, u in zip(words, updates, strict=True))]


@handles("dynamic_slice")
def _dynamic_slice(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    words, starts = inputs[0], [(k, start) for k, (start,) in enumerate(inputs[1:])]
    sizes, every = eqn.params["slice_sizes"], range(len(words[0].shape))
    index, _ = window_positions(at.builder, starts, words[0].shape, sizes, sizes, every, every)
    return [tuple(at.builder.take(x, index) for x in words)]


@handles("dynamic_update_slice")
def _dynamic_update_slice(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    words, updates, starts = inputs[0], inputs[1], [(k, start) for k, (start,) in enumerate(inputs[2:])]
    sizes, every = updates[0].shape, range(len(words[0].shape))
    index, _ = window_positions(at.builder, starts, words[0].shape, sizes, sizes, every, every)
    always = at.builder.full(sizes, True, "bool")
    return [tuple(at.builder.put(x, index, u, always, "set") for x, u in zip(words, updates, strict=True))]
