"""Scalar replacement: arrays of at most 64 elements become that many scalars.

Slices, reshapes, stacks and constant indices of such arrays cost nothing afterwards, and every element is
folded, shared and found dead on its own. Larger arrays stay, and are read and written element by element
where small ones meet them. `stack` makes an array of scalars; `pick` chooses a scalar by an index.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import TypeVar

import numpy as np

from drivetrain.sim.ir.build import Builder, row_major
from drivetrain.sim.ir.evaluate import affine_positions
from drivetrain.sim.ir.ops import ELEMENTWISE
from drivetrain.sim.ir.passes.sorting import merge_exchange
from drivetrain.sim.ir.passes.wide import wide_values
from drivetrain.sim.ir.program import Block, Op, Value

MOST_ELEMENTS = 64
MOST_CHOICES = 1024
"""Updates times elements of a small array that a put writes out; beyond it the put stays one operation."""
MOST_SORTED = 1500
"""Operations of a sort that are written out; a loop over longer ones is no slower, and short (design/sim-passes.md)."""

Scalars = list[Value]
_T = TypeVar("_T")


def scalarize(block: Block, shared: Iterable[Value] = ()) -> Block:
    """Inputs and outputs of at most 64 elements become as many scalars each, in row-major order.

    Args:
        shared: Inputs that stay the arrays that they are.
    """
    return Scalarizer(Builder(), {}, wide_values(block, shared)).whole(block)


def is_small(value: Value) -> bool:
    """Whether a value is replaced by scalars."""
    return value.size <= MOST_ELEMENTS


class Scalarizer:
    """Rewrites one block; knows what became of the values around it."""

    def __init__(self, builder: Builder, known: dict[Value, Scalars], wide: set[Value]) -> None:
        """`known` maps small values to their elements, and those that stay arrays, large or wide, to themselves."""
        self.b = builder
        self.known = known
        self.wide = wide
        self.stacked: dict[Value, Value] = {}

    def is_split(self, value: Value) -> bool:
        """Whether scalars stand for a value."""
        return is_small(value) and value not in self.wide

    def whole(self, block: Block) -> Block:
        """The block with scalar inputs and outputs."""
        inputs = [value for old in block.inputs for value in self.fresh(old)]
        for op in block.ops:
            self.b.where = op.where
            self.rewrite(op)
        outputs = [value for old in block.outputs for value in self.parts(old)]
        return Block(tuple(inputs), tuple(self.b.ops), tuple(outputs))

    def fresh(self, old: Value) -> Scalars:
        """New values that an input of a block becomes."""
        new = [Value((), old.dtype) for _ in range(old.size)] if self.is_split(old) else [old]
        self.known[old] = new
        return new

    def parts(self, old: Value) -> Scalars:
        """The elements of a small value; a large one alone."""
        known = self.known.get(old, [old])
        return self.pieces(known[0], old.size) if old in self.wide and is_small(old) else known

    def array(self, old: Value) -> Value:
        """The value as an array, whatever its size."""
        if not self.is_split(old) or not old.shape:
            return self.known.get(old, [old])[0]
        if old not in self.stacked:
            self.stacked[old] = self.b.emit("stack", self.parts(old), old.shape, old.dtype)
        return self.stacked[old]

    def elements(self, old: Value) -> Scalars:
        """Every element of a value as a scalar."""
        if is_small(old):
            return self.parts(old)
        return self.pieces(self.array(old), old.size)

    def pieces(self, array: Value, size: int) -> Scalars:
        """Every element of an array that stays one."""
        return [self.b.emit("view", (array,), (), array.dtype, offset=k, strides=()) for k in range(size)]

    def rewrite(self, op: Op) -> None:
        """Write an operation on scalars where its output is small, else on arrays."""
        if op.regions:
            return self.regions(op)
        if not any(map(self.is_split, op.outputs)):
            return self.keep(op)
        if op.name in ELEMENTWISE:
            return self.elementwise(op)
        if op.name == "sort":
            columns = _sort(self, op)
        else:
            parts = WRITERS[op.name](self, op)
            columns = None if parts is None else [parts]
        if columns is None:
            return self.keep(op)
        self.known.update(zip(op.outputs, columns, strict=True))
        return None

    def keep(self, op: Op) -> None:
        """Write the operation on arrays; a small result is taken apart afterwards."""
        inputs = tuple(self.array(value) for value in op.inputs)
        outputs = tuple(Value(value.shape, value.dtype) for value in op.outputs)
        self.b.ops.append(Op(op.name, inputs, outputs, op.attrs, (), op.where))
        for old, new in zip(op.outputs, outputs, strict=True):
            self.known[old] = self.pieces(new, new.size) if self.is_split(old) else [new]

    def elementwise(self, op: Op) -> None:
        """Element by element."""
        columns = zip(*(self.parts(value) for value in op.inputs), strict=True)
        results: list[tuple[Value, ...]] = []
        for column in columns:
            outputs = tuple(Value((), value.dtype) for value in op.outputs)
            self.b.ops.append(Op(op.name, tuple(column), outputs, op.attrs, (), op.where))
            results.append(outputs)
        for k, value in enumerate(op.outputs):
            self.known[value] = [outputs[k] for outputs in results]

    def regions(self, op: Op) -> None:
        """`if`, `while` and `for` over scalars and large arrays."""
        blocks = [Scalarizer(Builder(op.where), dict(self.known), self.wide).whole(region) for region in op.regions]
        starts = [part for value in op.inputs for part in self.parts(value)]
        outputs: Scalars = []
        for old in op.outputs:
            new = [Value((), old.dtype) for _ in range(old.size)] if is_small(old) else [Value(old.shape, old.dtype)]
            self.known[old] = new
            outputs += new
        self.b.ops.append(Op(op.name, tuple(starts), tuple(outputs), op.attrs, tuple(blocks), op.where))


def _const(at: Scalarizer, op: Op) -> Scalars:
    return [at.b.const(number) for number in op.attrs["value"].reshape(-1)]


def _view(at: Scalarizer, op: Op) -> Scalars:
    (x,) = op.inputs
    places = affine_positions(op.out.shape, op.attrs["offset"], op.attrs["strides"]).reshape(-1)
    if is_small(x):
        return [at.parts(x)[place] for place in places]
    array = at.array(x)
    return [at.b.emit("view", (array,), (), x.dtype, offset=int(place), strides=()) for place in places]


def _concat(at: Scalarizer, op: Op) -> Scalars:
    axis: int = op.attrs["axis"]
    numbers, start = np.empty(op.out.shape, np.int64), 0
    every: Scalars = []
    for part in op.inputs:
        region = [slice(None)] * len(op.out.shape)
        region[axis] = slice(start, start + part.shape[axis])
        numbers[tuple(region)] = (len(every) + np.arange(part.size)).reshape(part.shape)
        every += at.elements(part)
        start += part.shape[axis]
    return [every[number] for number in numbers.reshape(-1)]


def _take(at: Scalarizer, op: Op) -> Scalars:
    x, index = op.inputs
    if is_small(x):
        return [at.b.emit("pick", (place, *at.parts(x)), (), x.dtype) for place in at.parts(index)]
    array = at.array(x)
    return [at.b.emit("take", (array, place), (), x.dtype) for place in at.parts(index)]


def _put(at: Scalarizer, op: Op) -> Scalars | None:
    """Every element asks of every update whether it is meant; the last of several wins."""
    x, index, updates, mask = op.inputs
    if x.size * index.size > MOST_CHOICES or index.size > MOST_ELEMENTS:
        return None
    out = list(at.parts(x))
    columns = zip(at.parts(index), at.parts(updates), at.parts(mask), strict=True)
    for place, new, allowed in columns:
        for k, old in enumerate(out):
            here = at.b.elementwise("eq", place, at.b.const(np.int32(k)))
            chosen = at.b.elementwise("and", allowed, here)
            out[k] = at.b.elementwise("select", chosen, combined(at.b, op.attrs["kind"], old, new), old)
    return out


def combined(b: Builder, kind: str, old: Value, new: Value) -> Value:
    """What a put leaves at a place."""
    return new if kind == "set" else b.elementwise(kind, old, new)


def _reduce(at: Scalarizer, op: Op) -> Scalars | None:
    (x,), size = op.inputs, op.inputs[0].shape[-1]
    if not at.is_split(x):
        if not op.out.shape:
            return None
        dense, array = row_major(x.shape)[-1], at.array(x)
        rows = [at.b.view(array, (size,), k * size, (dense,)) for k in range(op.out.size)]
        return [at.b.reduce(row, op.attrs["kind"], op.out.dtype) for row in rows]
    parts = at.parts(x)
    return [reduced(at.b, op.attrs["kind"], parts[k * size : (k + 1) * size], x.dtype) for k in range(op.out.size)]


def reduced(b: Builder, kind: str, row: Scalars, dtype: str) -> Value:
    """A row of scalars as one; by halves, where the order of operations does not matter.

    Compilers look through chains of comparisons, for each of them anew, and processors wait for each.
    """
    if kind in ("argmax", "argmin"):
        places = [b.const(np.int32(k)) for k in range(len(row))]
        return _by_halves(lambda x, y: _better(b, kind, x, y), list(zip(row, places, strict=True)))[1]
    if dtype == "bool" and kind in ("max", "min", "sum", "prod"):
        kind = "or" if kind in ("max", "sum") else "and"
    name = {"sum": "add", "prod": "mul"}.get(kind, kind)
    in_order = dtype == "float32" and kind in ("sum", "prod")
    return (reduce if in_order else _by_halves)(lambda x, y: b.elementwise(name, x, y), row)


def _by_halves(combine: Callable[[_T, _T], _T], row: Sequence[_T]) -> _T:
    """Neighbours are combined, in their order."""
    if len(row) == 1:
        return row[0]
    half = len(row) // 2
    return combine(_by_halves(combine, row[:half]), _by_halves(combine, row[half:]))


def _better(b: Builder, kind: str, one: tuple[Value, Value], two: tuple[Value, Value]) -> tuple[Value, Value]:
    """Of two values with their places the larger or smaller one, the first of equal ones; NaN counts as either."""
    (x, _), (y, _) = one, two
    better = b.elementwise("gt" if kind == "argmax" else "lt", y, x)
    if x.dtype == "float32":
        first = b.elementwise("and", b.elementwise("ne", y, y), b.elementwise("eq", x, x))
        better = b.elementwise("or", better, first)
    value, place = (b.elementwise("select", better, new, old) for new, old in zip(two, one, strict=True))
    return value, place


def _cumulate(at: Scalarizer, op: Op) -> Scalars:
    (x,), size, name = op.inputs, op.inputs[0].shape[-1], {"sum": "add", "prod": "mul"}.get(op.attrs["kind"])
    out: Scalars = []
    for k, value in enumerate(at.elements(x)):
        out.append(value if k % size == 0 else at.b.elementwise(name or op.attrs["kind"], out[-1], value))
    return out


def _sort(at: Scalarizer, op: Op) -> list[Scalars] | None:
    """Exchanges at places that are known beforehand, of rows that differ or are the same (`untie`)."""
    size, num_keys = op.inputs[0].shape[-1], op.attrs["num_keys"]
    starts, pairs = range(0, op.inputs[0].size, size or 1), list(merge_exchange(size))
    per_exchange = 2 if len(op.inputs) == 1 else 4 * num_keys - 3 + 2 * len(op.inputs)
    if len(starts) * len(pairs) * per_exchange > MOST_SORTED:
        return None
    columns = [list(at.parts(value)) for value in op.inputs]
    for start in starts:
        for i, k in pairs:
            rows = [(column[start + i], column[start + k]) for column in columns]
            for column, exchanged in zip(columns, in_order(at.b, rows, num_keys), strict=True):
                column[start + i], column[start + k] = exchanged
    return columns


def in_order(b: Builder, rows: Sequence[tuple[Value, Value]], num_keys: int) -> Sequence[tuple[Value, Value]]:
    """Two rows by their keys, column by column."""
    (x, y), *rest = rows
    if not rest:
        least, most = ("and", "or") if x.dtype == "bool" else ("min", "max")
        return [(b.elementwise(least, x, y), b.elementwise(most, x, y))]
    swap = after(b, rows[:num_keys])
    return [(b.elementwise("select", swap, y, x), b.elementwise("select", swap, x, y)) for x, y in rows]


def after(b: Builder, pairs: Sequence[tuple[Value, Value]]) -> Value:
    """Whether the first of two rows of keys comes after the second."""
    (x, y), *rest = pairs
    greater = b.elementwise("gt", x, y)
    if not rest:
        return greater
    return b.elementwise("or", greater, b.elementwise("and", b.elementwise("eq", x, y), after(b, rest)))


def _pick(at: Scalarizer, op: Op) -> Scalars:
    return [at.b.emit("pick", [at.parts(value)[0] for value in op.inputs], (), op.out.dtype)]


def _stack(at: Scalarizer, op: Op) -> Scalars:
    return [at.parts(value)[0] for value in op.inputs]


WRITERS: dict[str, Callable[[Scalarizer, Op], Scalars | None]] = {
    "const": _const, "view": _view, "concat": _concat, "take": _take, "put": _put, "reduce": _reduce,
    "cumulate": _cumulate, "stack": _stack, "pick": _pick, "dot": lambda at, op: None,
}  # fmt: skip
