"""Writes operations: what the importer and the passes call to make new ones.

Data movement comes down to `view`, `concat`, `take` and `put`, so that passes and engines meet four
operations where JAX has twenty.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.sim.ir.ops import COMPARE
from drivetrain.sim.ir.program import Block, Op, Value

Ints = Sequence[int]


class Builder:
    """Collects the operations of one block."""

    def __init__(self, where: str = "") -> None:
        """`where` is the line of the environment that new operations come from; it may be set anew."""
        self.ops: list[Op] = []
        self.where = where
        self.constants: dict[Value, npt.NDArray[Any]] = {}
        self.flags: dict[Value, Value] = {}
        """Booleans as numbers -> the Booleans."""

    def emit(self, name: str, inputs: Sequence[Value], shape: Ints, dtype: str, **attrs: Any) -> Value:
        """One operation with one output."""
        out = Value(tuple(shape), dtype)
        self.ops.append(Op(name, tuple(inputs), (out,), attrs, (), self.where))
        return out

    def emit_regions(self, name: str, inputs: Sequence[Value], like: Sequence[Value], regions: Sequence[Block],
                     **attrs: Any) -> list[Value]:  # fmt: skip
        """One operation with regions; its outputs have the types of `like`."""
        outputs = tuple(Value(value.shape, value.dtype) for value in like)
        self.ops.append(Op(name, tuple(inputs), outputs, attrs, tuple(regions), self.where))
        return list(outputs)

    def const(self, value: npt.ArrayLike) -> Value:
        """A constant array."""
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        out = self.emit("const", (), array.shape, array.dtype.name, value=array)
        self.constants[out] = array
        return out

    def full(self, shape: Ints, value: Any, dtype: str) -> Value:
        """One number in every element."""
        return self.broadcast(self.const(np.asarray(value, dtype)), tuple(shape), ())

    def elementwise(self, name: str, *inputs: Value) -> Value:
        """An elementwise operation; scalars, and dimensions of size 1, are repeated to the shape of the others."""
        inputs, shape = self.of_one_shape(inputs)
        dtype = "bool" if name in COMPARE or name == "is_finite" else inputs[-1].dtype
        return self.emit(name, inputs, shape, dtype)

    def of_one_shape(self, values: tuple[Value, ...]) -> tuple[tuple[Value, ...], tuple[int, ...]]:
        """Values repeated to the shape of all of them, and that; scalars among scalars are most of a large program."""
        shape = values[0].shape
        if all(value.shape == shape for value in values):
            return values, shape
        shape = np.broadcast_shapes(*(value.shape for value in values))
        return tuple(self.broadcast(v, shape, range(len(shape) - len(v.shape), len(shape))) for v in values), shape

    def convert(self, x: Value, dtype: str) -> Value:
        """Each element as another type, by value."""
        out = x if x.dtype == dtype else self.emit("convert", (x,), x.shape, dtype)
        if x.dtype == "bool":
            self.flags[out] = x
        return out

    def threefry(self, k0: Value, k1: Value, c0: Value, c1: Value) -> tuple[Value, Value]:
        """Both words of Threefry-2x32, elementwise over one shape; scalars are repeated."""
        inputs, shape = self.of_one_shape((k0, k1, c0, c1))
        outputs = (Value(shape, "uint32"), Value(shape, "uint32"))
        self.ops.append(Op("threefry", inputs, outputs, {}, (), self.where))
        return outputs

    # ---- data movement -----------------------------------------------------------------------------------

    def view(self, x: Value, shape: Ints, offset: int, strides: Ints) -> Value:
        """Elements of x by an affine map; x itself where the map is the identity."""
        if tuple(shape) == x.shape and offset == 0 and tuple(strides) == row_major(x.shape):
            return x
        return self.emit("view", (x,), shape, x.dtype, offset=offset, strides=tuple(strides))

    def reshape(self, x: Value, shape: Ints) -> Value:
        """The same elements in row-major order in another shape."""
        return x if tuple(shape) == x.shape else self.view(x, shape, 0, row_major(shape))

    def broadcast(self, x: Value, shape: Ints, dims: Ints) -> Value:
        """Dimension k of x becomes dimension dims[k]; those of size 1 and all others repeat."""
        strides = [0] * len(shape)
        for dim, size, stride in zip(dims, x.shape, row_major(x.shape), strict=True):
            strides[dim] = stride if size != 1 else 0
        return self.view(x, shape, 0, strides)

    def transpose(self, x: Value, order: Ints) -> Value:
        """Dimension k of the result is dimension order[k] of x."""
        strides = row_major(x.shape)
        return self.view(x, [x.shape[k] for k in order], 0, [strides[k] for k in order])

    def slice(self, x: Value, start: Ints, stop: Ints, step: Ints) -> Value:
        """Elements start, start + step, ... below stop, in each dimension."""
        strides = row_major(x.shape)
        shape = [max(0, -(-(b - a) // c)) for a, b, c in zip(start, stop, step, strict=True)]
        offset = sum(a * s for a, s in zip(start, strides, strict=True))
        return self.view(x, shape, offset, [c * s for c, s in zip(step, strides, strict=True)])

    def reverse(self, x: Value, dims: Ints) -> Value:
        """The order of elements turned round along some dimensions."""
        strides = row_major(x.shape)
        offset = sum((x.shape[k] - 1) * strides[k] for k in dims)
        return self.view(x, x.shape, offset, [-s if k in dims else s for k, s in enumerate(strides)])

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """Arrays one after the other along an axis; empty ones are left out."""
        full = [part for part in parts if part.size] or [parts[0]]
        if len(full) == 1:
            return full[0]
        shape = list(full[0].shape)
        shape[axis] = sum(part.shape[axis] for part in full)
        return self.emit("concat", full, shape, full[0].dtype, axis=axis)

    def stack_last(self, parts: Sequence[Value]) -> Value:
        """Arrays of one shape as a new last dimension."""
        return self.concat([self.reshape(part, (*part.shape, 1)) for part in parts], len(parts[0].shape))

    def last(self, x: Value, axes: Ints) -> Value:
        """The given dimensions moved to the end, and made one."""
        others = [k for k in range(len(x.shape)) if k not in axes]
        moved = self.transpose(x, [*others, *axes])
        return self.reshape(moved, (*(x.shape[k] for k in others), prod(x.shape[k] for k in axes)))

    def iota(self, shape: Ints, dim: int, dtype: str) -> Value:
        """Each element's position along one dimension."""
        numbers = np.arange(shape[dim]).astype(dtype)
        return self.const(np.broadcast_to(numbers.reshape([-1 if k == dim else 1 for k in range(len(shape))]), shape))

    def take(self, x: Value, index: Value) -> Value:
        """Elements of flat x at int32 positions that lie inside."""
        return self.emit("take", (x, index), index.shape, x.dtype)

    def put(self, x: Value, index: Value, updates: Value, mask: Value, kind: str) -> Value:
        """X with updates combined into it at int32 positions, where mask; x itself where there are none."""
        if not index.size:
            return x
        return self.emit("put", (x, index, updates, mask), x.shape, x.dtype, kind=kind)

    def dot(self, x: Value, y: Value) -> Value:
        """A vector [K] times a matrix [K, N]."""
        return self.emit("dot", (x, y), y.shape[1:], x.dtype)

    def reduce(self, x: Value, kind: str, dtype: str | None = None) -> Value:
        """Over the last axis; of no elements, the number that changes no other, and of one that one, as -0."""
        if x.shape[-1] == 0:
            return self.full(x.shape[:-1], of_nothing(kind, x.dtype), x.dtype)
        if x.shape[-1] == 1 and not kind.startswith("arg"):
            return self.reshape(x, x.shape[:-1])
        return self.emit("reduce", (x,), x.shape[:-1], dtype or x.dtype, kind=kind)


def of_nothing(kind: str, dtype: str) -> Any:
    """What a reduction of no elements gives."""
    if kind == "and":
        return np.invert(np.zeros((), dtype))
    if kind not in ("max", "min"):
        return int(kind == "prod")
    if dtype == "float32":
        return -np.inf if kind == "max" else np.inf
    if dtype == "bool":
        return kind == "min"
    return np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max


def row_major(shape: Ints) -> tuple[int, ...]:
    """Elements from one position to the next in each dimension of a dense array."""
    strides = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * shape[k + 1]
    return tuple(strides)
