"""Reads a jaxpr into the representation: the only file that knows how JAX writes programs down.

Written against JAX 0.10 and 0.11, without its private modules. What calls another jaxpr (`jit`, `remat`,
custom derivatives) is recognised by the parameter that holds it. A typed key is two uint32 values, each of
the key array's shape, so that moving keys about is moving numbers about, twice.
"""

# Over 400 lines: one importer, whose handlers are short, so that no other file has to know JAX.
# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false, reportPrivateImportUsage=false

import os
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import numpy as np

from drivetrain.core.errors import CompileError
from drivetrain.sim.ir import ops
from drivetrain.sim.ir.build import Builder, row_major
from drivetrain.sim.ir.program import Block, Value

Parts = tuple[Value, ...]
"""A JAX variable: one value, or the two words of a key."""

JAX_FOLDER = os.path.dirname(os.path.abspath(jax.__file__))
ADVICE = {
    "pure_callback": "compute it in JAX: a kernel cannot call back into Python",
    "io_callback": "compute it in JAX: a kernel cannot call back into Python",
    "debug_callback": "take jax.debug.print out of the environment",
    "conv_general_dilated": "write it with slices and sums",
    "random_gamma": "draw from uniform or normal numbers",
}


def import_jaxpr(closed: Any) -> Block:
    """A closed jaxpr as a block over its flattened arguments and results.

    Raises:
        CompileError: It uses a primitive or a type that the representation lacks.
    """
    inputs = [tuple(values_like(var)) for var in closed.jaxpr.invars]
    importer = Importer(Builder())
    outputs = importer.inline(closed.jaxpr, closed.consts, inputs)
    flat = tuple(value for parts in inputs for value in parts)
    return Block(flat, tuple(importer.builder.ops), tuple(value for parts in outputs for value in parts))


def is_key(aval: Any) -> bool:
    """Whether a type is that of typed random keys."""
    return jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key)


def values_like(var: Any) -> list[Value]:
    """New values for a variable: one, or two words of a key."""
    if is_key(var.aval):
        return [Value(tuple(var.aval.shape), "uint32") for _ in range(2)]
    return [Value(tuple(var.aval.shape), np.dtype(var.aval.dtype).name)]


def source_line(eqn: Any) -> str:
    """FILE:LINE of the innermost line outside JAX that produced an equation; empty when unknown."""
    traceback = getattr(eqn.source_info, "traceback", None)
    for frame in getattr(traceback, "frames", ()):
        if not frame.file_name.startswith((JAX_FOLDER, "<")):
            return f"{frame.file_name}:{frame.line_num}"
    return ""


Handler = Callable[["Importer", Any, list[Parts]], "Value | Sequence[Parts]"]
HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for primitives of these names."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


class Importer:
    """Walks equations, writing operations to a builder."""

    def __init__(self, builder: Builder) -> None:
        """Operations go to `builder`."""
        self.builder = builder

    def inline(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Parts]) -> list[Parts]:
        """Write a jaxpr's operations here, over these arguments; its results."""
        known: dict[Any, Parts] = {}
        known.update(zip(jaxpr.invars, arguments, strict=True))
        known.update((var, self.constant(value)) for var, value in zip(jaxpr.constvars, consts, strict=True))
        for eqn in jaxpr.eqns:
            self.builder.where = source_line(eqn) or self.builder.where
            inputs = [self.read(known, var) for var in eqn.invars]
            results = self.equation(eqn, inputs)
            for var, parts in zip(eqn.outvars, results, strict=True):
                known[var] = parts
        return [self.read(known, var) for var in jaxpr.outvars]

    def read(self, known: dict[Any, Parts], var: Any) -> Parts:
        """The values of a variable, or of a literal."""
        if hasattr(var, "val"):
            return (self.builder.const(np.asarray(var.val, self.dtype_of(var.aval))),)
        return known[var]

    def constant(self, value: Any) -> Parts:
        """A constant that the trace closed over."""
        if hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            words = np.asarray(jax.random.key_data(value))
            return self.builder.const(words[..., 0]), self.builder.const(words[..., 1])
        array = np.asarray(value)
        self.check_dtype(array.dtype.name, "a constant")
        return (self.builder.const(array),)

    def equation(self, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
        """Write the operations of one equation; its results."""
        name, params = eqn.primitive.name, eqn.params
        handler = HANDLERS.get(name)
        if handler is None:
            inner = params.get("jaxpr", params.get("call_jaxpr"))
            if inner is None:
                raise self.unsupported(f"the primitive `{name}`", ADVICE.get(name, "write it with other primitives"))
            return self.inline(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
        for var in eqn.outvars:
            if not is_key(var.aval):
                self.dtype_of(var.aval)
        result = handler(self, eqn, inputs)
        return [(result,)] if isinstance(result, Value) else result

    def dtype_of(self, aval: Any) -> str:
        """The name of a type, if we have it."""
        name = np.dtype(aval.dtype).name
        self.check_dtype(name, "a value")
        return name

    def check_dtype(self, name: str, what: str) -> None:
        """Refuse types that the representation lacks."""
        if name not in ops.DTYPES:
            raise self.unsupported(f"{what} of type {name}", f"use one of {', '.join(ops.DTYPES)}")

    def unsupported(self, what: str, remedy: str) -> CompileError:
        """The error for something that cannot be imported, with the line that asked for it."""
        return CompileError(
            f'{self.builder.where or "the environment"}: engines other than "xla" do not support {what}: '
            f'{remedy}, or compile with engine="xla"'
        )

    def region(self, jaxpr: Any, arguments: Sequence[Parts], inputs: Sequence[Value] = ()) -> Block:
        """A closed jaxpr as a block of its own, over values that may be those of this block."""
        inner = Importer(Builder(self.builder.where))
        outputs = inner.inline(jaxpr.jaxpr, jaxpr.consts, arguments)
        return Block(tuple(inputs), tuple(inner.builder.ops), flat(outputs))


def flat(parts: Sequence[Parts]) -> Parts:
    """The values of several variables in a row."""
    return tuple(value for values in parts for value in values)


def like(variables: Sequence[Any], values: Sequence[Value]) -> list[Parts]:
    """A row of values as variables: the reverse of `flat`."""
    rest = list(values)
    return [tuple(rest.pop(0) for _ in range(2 if is_key(var.aval) else 1)) for var in variables]


# ---- elementwise -----------------------------------------------------------------------------------------

SAME = {
    "neg": "neg", "abs": "abs", "sign": "sign", "not": "not", "floor": "floor", "ceil": "ceil", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "cbrt": "cbrt", "exp": "exp", "exp2": "exp2", "log": "log", "log1p": "log1p", "expm1": "expm1",
    "tanh": "tanh", "logistic": "logistic", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin",
    "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "erf": "erf", "erfc": "erfc", "erf_inv": "erf_inv", "is_finite": "is_finite",
    "population_count": "popcount", "clz": "clz", "add": "add", "add_any": "add", "sub": "sub", "mul": "mul",
    "div": "div", "rem": "rem", "max": "max", "min": "min", "pow": "pow", "atan2": "atan2", "nextafter": "nextafter",
    "and": "and", "or": "or", "xor": "xor", "shift_left": "shl", "shift_right_logical": "shr_logical",
    "shift_right_arithmetic": "shr_arithmetic",
}  # fmt: skip


@handles(*SAME)
def _elementwise(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    values = [value for (value,) in inputs]
    if eqn.primitive.name == "pow" and values[1].dtype != values[0].dtype:
        values[1] = at.builder.convert(values[1], values[0].dtype)
    return at.builder.elementwise(SAME[eqn.primitive.name], *values)


@handles(*ops.COMPARE)
def _compare(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    return at.builder.elementwise(eqn.primitive.name, inputs[0][0], inputs[1][0])


@handles("eq_to", "le_to", "lt_to")
def _compare_total(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """IEEE total order: for floats, that of the bits with negative numbers turned round."""
    values = [value for (value,) in inputs]
    if values[0].dtype == "float32":
        values = [ordered_bits(at.builder, value) for value in values]
    return at.builder.elementwise(eqn.primitive.name.removesuffix("_to"), *values)


def ordered_bits(builder: Builder, x: Value) -> Value:
    """float32 as int32 in the same order, -0 before 0."""
    bits = builder.emit("bitcast", (x,), x.shape, "int32")
    sign = builder.elementwise("shr_arithmetic", bits, builder.const(np.int32(31)))
    return builder.elementwise("xor", bits, builder.elementwise("and", sign, builder.const(np.int32(0x7FFFFFFF))))


@handles("convert_element_type")
def _convert(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    (x,), dtype = inputs[0], np.dtype(eqn.params["new_dtype"]).name
    if dtype == "bool" and x.dtype != "bool":
        return at.builder.elementwise("ne", x, at.builder.full(x.shape, 0, x.dtype))
    return at.builder.convert(x, dtype)


@handles("bitcast_convert_type")
def _bitcast(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    (x,), dtype = inputs[0], np.dtype(eqn.params["new_dtype"])
    if np.dtype(x.dtype).itemsize != dtype.itemsize:
        raise at.unsupported("a change of width by bitcast", "use shifts")
    return at.builder.emit("bitcast", (x,), x.shape, dtype.name)


@handles("copy", "copy_p", "stop_gradient", "optimization_barrier", "random_clone", "device_put")
def _identity(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return inputs


@handles("reduce_precision")
def _reduce_precision(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    if (eqn.params["exponent_bits"], eqn.params["mantissa_bits"]) != (8, 23):
        raise at.unsupported("a precision below float32", "compute in float32")
    return inputs


@handles("square")
def _square(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    return at.builder.elementwise("mul", inputs[0][0], inputs[0][0])


@handles("integer_pow")
def _integer_pow(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """By squaring, as XLA does."""
    (x,), exponent = inputs[0], int(eqn.params["y"])
    result, power, left = at.builder.full(x.shape, 1, x.dtype), x, abs(exponent)
    while left:
        result = at.builder.elementwise("mul", result, power) if left & 1 else result
        left >>= 1
        power = at.builder.elementwise("mul", power, power) if left else power
    return result if exponent >= 0 else at.builder.elementwise("div", at.builder.full(x.shape, 1, x.dtype), result)


@handles("round")
def _round(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    kind = "round_even" if int(eqn.params["rounding_method"]) == 1 else "round_away"
    return at.builder.elementwise(kind, inputs[0][0])


@handles("clamp")
def _clamp(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    (low,), (x,), (high,) = inputs
    return at.builder.elementwise("min", at.builder.elementwise("max", x, low), high)


@handles("select_n")
def _select(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    (which,), *cases = inputs
    if which.dtype == "bool":
        return [tuple(at.builder.elementwise("select", which, y, x) for x, y in zip(*cases, strict=True))]
    chosen = cases[-1]
    for number, case in reversed(list(enumerate(cases[:-1]))):
        is_it = at.builder.elementwise("eq", which, at.builder.full(which.shape, number, which.dtype))
        chosen = tuple(at.builder.elementwise("select", is_it, x, y) for x, y in zip(case, chosen, strict=True))
    return [chosen]


# ---- data movement ---------------------------------------------------------------------------------------


def movement(name: str, move: Callable[[Builder, Value, dict[str, Any]], Value]) -> None:
    """A primitive that moves the elements of one array: done to each word of a key."""

    def handler(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
        params = {**eqn.params, "out": eqn.outvars[0].aval.shape}
        return [tuple(move(at.builder, x, params) for x in inputs[0])]

    HANDLERS[name] = handler


movement("reshape", lambda b, x, p: b.reshape(x, p["out"]))
movement("squeeze", lambda b, x, p: b.reshape(x, p["out"]))
movement("expand_dims", lambda b, x, p: b.reshape(x, p["out"]))
movement("broadcast_in_dim", lambda b, x, p: b.broadcast(x, p["shape"], p["broadcast_dimensions"]))
movement("transpose", lambda b, x, p: b.transpose(x, p["permutation"]))
movement("rev", lambda b, x, p: b.reverse(x, p["dimensions"]))
movement(
    "slice",
    lambda b, x, p: b.slice(x, p["start_indices"], p["limit_indices"], p["strides"] or (1,) * len(x.shape)),
)


@handles("concatenate")
def _concatenate(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return [tuple(at.builder.concat(words, eqn.params["dimension"]) for words in zip(*inputs, strict=True))]


@handles("stack")
def _stack(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    axis, shape = eqn.params["axis"], list(inputs[0][0].shape)
    thin = [tuple(at.builder.reshape(x, [*shape[:axis], 1, *shape[axis:]]) for x in parts) for parts in inputs]
    return [tuple(at.builder.concat(words, axis) for words in zip(*thin, strict=True))]


@handles("unstack")
def _unstack(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    axis, shape = eqn.params["axis"], inputs[0][0].shape
    rest, strides = [n for k, n in enumerate(shape) if k != axis], row_major(shape)
    kept = [s for k, s in enumerate(strides) if k != axis]
    every = range(shape[axis])
    return [tuple(at.builder.view(x, rest, row * strides[axis], kept) for x in inputs[0]) for row in every]


@handles("tile")
def _tile(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """Repeats become dimensions before each dimension, then are merged."""
    reps, shape, b = eqn.params["reps"], inputs[0][0].shape, at.builder
    wide = [size for pair in zip(reps, shape, strict=True) for size in pair]
    merged = [rep * size for rep, size in zip(reps, shape, strict=True)]
    dims = range(1, len(wide), 2)
    return [tuple(b.reshape(b.broadcast(x, wide, dims), merged) for x in inputs[0])]


@handles("split")
def _split(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    axis, start, results = eqn.params["axis"], 0, list[Parts]()
    for size in eqn.params["sizes"]:
        shape = inputs[0][0].shape
        low = [start if k == axis else 0 for k in range(len(shape))]
        high = [start + size if k == axis else n for k, n in enumerate(shape)]
        results.append(tuple(at.builder.slice(x, low, high, [1] * len(shape)) for x in inputs[0]))
        start += size
    return results


@handles("pad")
def _pad(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """The padding with the array put into it at constant positions; negative padding cuts."""
    (x,), (padding,) = inputs
    config = [tuple(map(int, entry)) for entry in eqn.params["padding_config"]]
    shape = tuple(eqn.outvars[0].aval.shape)
    where = [low + np.arange(size) * (inner + 1) for size, (low, _, inner) in zip(x.shape, config, strict=True)]
    grids = np.meshgrid(*where, indexing="ij")
    inside = np.all([(g >= 0) & (g < n) for g, n in zip(grids, shape, strict=True)], axis=0)
    index = np.sum([np.clip(g, 0, n - 1) * s for g, n, s in zip(grids, shape, row_major(shape), strict=True)], axis=0)
    base = at.builder.broadcast(padding, shape, ())
    b = at.builder
    return b.put(base, b.const(index.astype(np.int32)), x, b.const(inside), "set")


@handles("iota")
def _iota(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    return at.builder.iota(eqn.params["shape"], eqn.params["dimension"], np.dtype(eqn.params["dtype"]).name)


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
        last = shape[dim] - sizes[dim]
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
        fill = eqn.params.get("fill_value")
        taken = [at.builder.elementwise("select", inside, x, at.builder.full(out, fill_value(x.dtype, fill), x.dtype))
                 for x in taken]  # fmt: skip
    return [tuple(taken)]


def fill_value(dtype: str, given: Any) -> Any:
    """What a gather gives outside: as asked, or NaN, the smallest signed, the largest unsigned, True."""
    if given is not None:
        return given
    if dtype == "float32":
        return np.nan
    if dtype == "bool":
        return True
    return np.iinfo(dtype).max if dtype.startswith("u") else np.iinfo(dtype).min


SCATTERS = {
    "scatter": "set", "scatter-add": "add", "scatter_add": "add", "scatter-mul": "mul", "scatter_mul": "mul",
    "scatter-max": "max", "scatter_max": "max", "scatter-min": "min", "scatter_min": "min",
}  # fmt: skip


@handles(*SCATTERS)
def _scatter(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    words, (indices,), updates = inputs
    numbers = eqn.params["dimension_numbers"]
    shape, out = words[0].shape, updates[0].shape
    absent = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    kept = [k for k in range(len(shape)) if k not in absent]
    sizes = [1] * len(shape)
    for dim, window_dim in zip(kept, numbers.update_window_dims, strict=True):
        sizes[dim] = out[window_dim]
    starts = components(at.builder, indices, numbers.scatter_dims_to_operand_dims)
    batching = list(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    index, inside = window_positions(at.builder, starts, shape, sizes, out, numbers.update_window_dims, kept, batching)
    if mode_of(eqn) != "FILL_OR_DROP":
        inside = at.builder.full(out, True, "bool")
    kind = SCATTERS[eqn.primitive.name]
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


# ---- reductions ------------------------------------------------------------------------------------------


@handles("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_xor")
def _reduce(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    rows = at.builder.last(inputs[0][0], eqn.params["axes"])
    return at.builder.reduce(rows, eqn.primitive.name.removeprefix("reduce_"))


@handles("argmax", "argmin")
def _argument(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    rows = at.builder.last(inputs[0][0], eqn.params["axes"])
    index = at.builder.reduce(rows, eqn.primitive.name, "int32")
    return at.builder.convert(index, np.dtype(eqn.params["index_dtype"]).name)


@handles("cumsum", "cumprod", "cummax", "cummin")
def _cumulate(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    (x,), axis, b = inputs[0], eqn.params["axis"], at.builder
    order = [*(k for k in range(len(x.shape)) if k != axis), axis]
    rows = b.transpose(x, order)
    turn = [len(order) - 1] if eqn.params["reverse"] else []
    rows = b.reverse(rows, turn)
    done = b.reverse(b.emit("cumulate", (rows,), rows.shape, x.dtype, kind=eqn.primitive.name[3:]), turn)
    return b.transpose(done, [order.index(k) for k in range(len(order))])


@handles("sort")
def _sort(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    axis, b = eqn.params["dimension"], at.builder
    values = [value for (value,) in inputs]
    order = [*(k for k in range(len(values[0].shape)) if k != axis), axis]
    rows = [b.transpose(x, order) for x in values]
    sorted_rows = b.emit_regions("sort", rows, rows, (), num_keys=eqn.params["num_keys"])
    return [(b.transpose(x, [order.index(k) for k in range(len(order))]),) for x in sorted_rows]


@handles("dot_general")
def _dot_general(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    """Products of all pairs of rows, summed over the last axis."""
    (x,), (y,) = inputs
    (cx, cy), (bx, by) = eqn.params["dimension_numbers"]
    free_x = [k for k in range(len(x.shape)) if k not in (*cx, *bx)]
    free_y = [k for k in range(len(y.shape)) if k not in (*cy, *by)]
    num_batch, num_free, b = len(bx), len(free_x), at.builder
    inner = prod(x.shape[k] for k in cx)
    rows_x = b.transpose(x, [*bx, *free_x, *cx])
    rows_y = b.transpose(y, [*by, *free_y, *cy])
    shape = [*(x.shape[k] for k in (*bx, *free_x)), *(y.shape[k] for k in free_y), inner]
    rows_x = b.reshape(rows_x, [*rows_x.shape[: num_batch + num_free], inner])
    rows_y = b.reshape(rows_y, [*rows_y.shape[: num_batch + len(free_y)], inner])
    last = len(shape) - 1
    wide_x = b.broadcast(rows_x, shape, [*range(num_batch + num_free), last])
    wide_y = b.broadcast(rows_y, shape, [*range(num_batch), *range(num_batch + num_free, last), last])
    return b.reduce(b.elementwise("mul", wide_x, wide_y), "sum")


# ---- random numbers --------------------------------------------------------------------------------------
# jax.random with jax_threefry_partitionable, the default since 0.5: element k of a draw is the cipher of the
# counter k. https://docs.jax.dev/en/latest/jax.random.html


def counters(b: Builder, keys: Parts, shape: Sequence[int]) -> tuple[Parts, Parts]:
    """Keys and 64-bit counters for a draw of a shape under each of an array of keys."""
    if not getattr(jax.config, "jax_threefry_partitionable", True):
        raise CompileError('jax_threefry_partitionable is off: turn it on, or compile with engine="xla"')
    whole = (*keys[0].shape, *shape)
    low = np.broadcast_to(np.arange(prod(shape), dtype=np.uint32).reshape(shape), whole)
    k0, k1 = (b.broadcast(k, whole, range(len(k.shape))) for k in keys)
    return (k0, k1), (b.full(whole, 0, "uint32"), b.const(low))


@handles("random_split")
def _random_split(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    keys, counts = counters(at.builder, inputs[0], eqn.params["shape"])
    return [at.builder.threefry(*keys, *counts)]


@handles("random_bits")
def _random_bits(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    width = eqn.params["bit_width"]
    if width > 32:
        raise at.unsupported(f"{width} random bits", "draw 32")
    keys, counts = counters(at.builder, inputs[0], eqn.params["shape"])
    bits = at.builder.elementwise("xor", *at.builder.threefry(*keys, *counts))
    return at.builder.convert(bits, f"uint{width}")


@handles("random_fold_in")
def _random_fold_in(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    (k0, k1), (data,) = inputs
    word = at.builder.convert(data, "uint32")
    return [at.builder.threefry(k0, k1, at.builder.full(word.shape, 0, "uint32"), word)]


@handles("random_seed")
def _random_seed(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    word = at.builder.convert(inputs[0][0], "uint32")
    return [(at.builder.full(word.shape, 0, "uint32"), word)]


@handles("random_wrap")
def _random_wrap(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    if "fry" not in str(eqn.outvars[0].aval.dtype):
        raise at.unsupported(f"keys of type {eqn.outvars[0].aval.dtype}", "use threefry, JAX's default")
    return [tuple(value for _, value in components(at.builder, inputs[0][0], (0, 1)))]


@handles("random_unwrap")
def _random_unwrap(at: Importer, eqn: Any, inputs: list[Parts]) -> Value:
    return at.builder.stack_last(inputs[0])


@handles("threefry2x32")
def _threefry2x32(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    return [(word,) for word in at.builder.threefry(*(value for (value,) in inputs))]


# ---- control flow ----------------------------------------------------------------------------------------


@handles("cond")
def _cond(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """Branches stay branches; more than two become a chain of choices."""
    (which,), arguments = inputs[0], inputs[1:]
    blocks = [at.region(branch, arguments) for branch in eqn.params["branches"]]
    chosen = blocks[-1]
    b = at.builder
    for number in range(len(blocks) - 2, -1, -1):
        outer = Builder(b.where) if number else b
        if which.dtype == "bool":
            is_it = outer.elementwise("not", which)
        else:  # JAX clamps the choice, so everything up to 0 is the first branch
            is_it = outer.elementwise("le", which, outer.const(np.asarray(number, which.dtype)))
        values = outer.emit_regions("if", (is_it,), blocks[number].outputs, (blocks[number], chosen))
        chosen = Block((), tuple(outer.ops), tuple(values))
    return like(eqn.outvars, chosen.outputs)


@handles("while")
def _while(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    params = eqn.params
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    carried = inputs[second:]

    def over(closed: Any, consts: list[Parts]) -> Block:
        fresh = [tuple(Value(value.shape, value.dtype) for value in parts) for parts in carried]
        return at.region(closed, [*consts, *fresh], flat(fresh))

    condition = over(params["cond_jaxpr"], inputs[:first])
    body = over(params["body_jaxpr"], inputs[first:second])
    start = flat(carried)
    return like(eqn.outvars, at.builder.emit_regions("while", start, start, (condition, body)))


@handles("scan")
def _scan(at: Importer, eqn: Any, inputs: list[Parts]) -> Sequence[Parts]:
    """A `for`: slices of the scanned arrays are taken, and slices of the results are put, at the index."""
    params = eqn.params
    first, second = params["num_consts"], params["num_consts"] + params["num_carry"]
    consts, carried, scanned = inputs[:first], inputs[first:second], inputs[second:]
    collected = [var.aval for var in eqn.outvars[params["num_carry"] :]]
    stacks = flat([tuple(at.builder.full(v.shape, 0, v.dtype) for v in values_like_aval(a)) for a in collected])
    inner = Importer(Builder(at.builder.where))
    b, index = inner.builder, Value((), "int32")
    fresh = [tuple(Value(v.shape, v.dtype) for v in parts) for parts in carried]
    fresh_stacks = tuple(Value(v.shape, v.dtype) for v in stacks)
    row = index
    if params["reverse"]:
        row = b.elementwise("sub", b.const(np.int32(params["length"] - 1)), index)
    slices = [tuple(b.take(x, row_positions(b, row, x.shape)) for x in parts) for parts in scanned]
    results = inner.inline(params["jaxpr"].jaxpr, params["jaxpr"].consts, [*consts, *fresh, *slices])
    rows = flat(results[len(carried) :])
    filled = [
        b.put(stack, row_positions(b, row, stack.shape), value, b.full(value.shape, True, "bool"), "set")
        for stack, value in zip(fresh_stacks, rows, strict=True)
    ]
    body = Block((index, *flat(fresh), *fresh_stacks), tuple(b.ops), (*flat(results[: len(carried)]), *filled))
    start = (*flat(carried), *stacks)
    return like(eqn.outvars, at.builder.emit_regions("for", start, start, (body,), length=params["length"]))


def values_like_aval(aval: Any) -> list[Value]:
    """As `values_like`, of a type."""
    return [Value(tuple(aval.shape), "uint32")] * 2 if is_key(aval) else [Value(tuple(aval.shape), aval.dtype.name)]


def row_positions(b: Builder, row: Value, shape: Sequence[int]) -> Value:
    """Flat positions of row `row` of an array."""
    offsets = b.const(np.arange(prod(shape[1:]), dtype=np.int32).reshape(shape[1:]))
    return b.elementwise("add", b.elementwise("mul", row, b.const(np.int32(prod(shape[1:])))), offsets)
