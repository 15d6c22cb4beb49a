"""Folding: operations on constants are done now, and those that change nothing disappear.

Exact: no rule changes a bit of a result, but for the sign of a zero.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.sim.ir.build import Builder, row_major
from drivetrain.sim.ir.evaluate import affine_positions, evaluate
from drivetrain.sim.ir.ops import ELEMENTWISE
from drivetrain.sim.ir.passes.renaming import renamed_op
from drivetrain.sim.ir.program import Block, Op, Value, hashable, rebuilt, remade, repeated_scalar

MOST_ELEMENTS = 4096
FOLDED = ELEMENTWISE | {"view", "concat", "stack", "take", "pick", "put", "reduce", "cumulate", "sort", "dot"}
Constants = dict[Value, npt.NDArray[Any]]
Known = dict[Value, Op]


def fold(block: Block) -> Block:
    """The block with constants folded and identities removed, in all regions."""
    return Folder().block(block)


class Folder:
    """Rewrites from top to bottom, so that one pass sees what it has folded."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.constants: Constants = {}
        self.makers: Known = {}
        self.renamed: dict[Value, Value] = {}

    def block(self, block: Block) -> Block:
        """One block; names inside are unique, so regions share what is known."""
        builder = Builder()
        for op in block.ops:
            regions = [self.block(region) for region in op.regions]
            self.rewrite(builder, rebuilt(op, self.renamed, regions))
        return remade(block, builder.ops, self.renamed)

    def rewrite(self, builder: Builder, op: Op) -> None:
        """Write one operation, or what it comes down to."""
        builder.where = op.where
        if op.name == "const":
            return self.keep(builder, op)
        if op.name in FOLDED and op.inputs and all(value in self.constants for value in op.inputs) and is_light(op):
            return self.compute(builder, op)
        if op.name == "if" and op.inputs[0] in self.constants:
            return self.inline(builder, op, op.regions[0 if self.constants[op.inputs[0]] else 1])
        mark = len(builder.ops)
        same = self.simpler(builder, op)
        for new in builder.ops[mark:]:
            self.learn(new)
        if same is not None:
            self.renamed[op.out] = same
            return None
        return self.keep(builder, op)

    def learn(self, op: Op) -> None:
        """Remember what makes a value."""
        if op.name == "const":
            self.constants[op.out] = op.attrs["value"]
        for value in op.outputs:
            self.makers[value] = op

    def keep(self, builder: Builder, op: Op) -> None:
        """Write the operation as it is."""
        builder.ops.append(op)
        self.learn(op)

    def compute(self, builder: Builder, op: Op) -> None:
        """Replace an operation by its results."""
        inputs = [self.constants[value][None] for value in op.inputs]
        for value, result in zip(op.outputs, evaluate(Block(op.inputs, (op,), op.outputs), inputs), strict=True):
            array = np.ascontiguousarray(result[0]).reshape(value.shape)
            self.keep(builder, Op("const", (), (value,), {"value": array}, (), op.where))

    def inline(self, builder: Builder, op: Op, region: Block) -> None:
        """A branch that is always taken."""
        for inner in region.ops:
            self.rewrite(builder, renamed_op(inner, self.renamed))
        self.renamed.update(
            (old, self.renamed.get(new, new)) for old, new in zip(op.outputs, region.outputs, strict=True)
        )

    def uniform(self, value: Value) -> Any:
        """The number, to the bit, that every element of a value is, or None: zeros of both signs are several."""
        array = self.constants.get(repeated_scalar(self.makers.get(value)) or value)
        if array is None or array.size == 0:
            return None
        first = array.reshape(-1)[0]
        return first if array.size == 1 or array.tobytes() == first.tobytes() * array.size else None

    def simpler(self, builder: Builder, op: Op) -> Value | None:
        """A value that equals the operation's only output, or None."""
        if len(op.outputs) != 1:
            return None
        rule = RULES.get(op.name)
        return rule(self, builder, op) if rule is not None else None


def is_light(op: Op) -> bool:
    """Whether the result of an operation is small enough to be kept as a constant."""
    return max(value.size for value in (*op.outputs, *op.inputs)) <= MOST_ELEMENTS


def _add(at: Folder, _: Builder, op: Op) -> Value | None:
    x, y = op.inputs
    return x if is_number(at, y, 0) else y if is_number(at, x, 0) else None


def _sub(at: Folder, b: Builder, op: Op) -> Value | None:
    x, y = op.inputs
    if x is y and op.out.dtype != "float32":
        return b.const(np.zeros(op.out.shape, op.out.dtype))
    return x if is_number(at, y, 0) else None


def _mul(at: Folder, b: Builder, op: Op) -> Value | None:
    x, y = op.inputs
    for one, other in ((x, y), (y, x)):
        if is_number(at, one, 1):
            return other
        if op.out.dtype != "float32":
            if is_number(at, one, 0):
                return one
            maker = at.makers.get(one)
            if maker is not None and maker.name == "convert" and maker.inputs[0].dtype == "bool":
                zero = b.full(op.out.shape, 0, op.out.dtype)
                return b.elementwise("select", maker.inputs[0], other, zero)
    return None


def _div(at: Folder, _: Builder, op: Op) -> Value | None:
    return op.inputs[0] if is_number(at, op.inputs[1], 1) else None


def _and(at: Folder, _: Builder, op: Op) -> Value | None:
    x, y = op.inputs
    if x is y:
        return x
    for one, other in ((x, y), (y, x)):
        number = at.uniform(one)
        if number is not None and op.out.dtype == "bool":
            return other if number else one
    return None


def _or(at: Folder, _: Builder, op: Op) -> Value | None:
    x, y = op.inputs
    if x is y:
        return x
    for one, other in ((x, y), (y, x)):
        number = at.uniform(one)
        if number is not None and op.out.dtype == "bool":
            return one if number else other
        if number is not None and number == 0:
            return other
    return None


def _not(at: Folder, b: Builder, op: Op) -> Value | None:
    maker = at.makers.get(op.inputs[0])
    if maker is None or op.out.dtype != "bool":
        return None
    if maker.name == "not":
        return maker.inputs[0]
    opposite = {"eq": "ne", "ne": "eq"} | ({} if maker.inputs and maker.inputs[0].dtype == "float32" else
                {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"})  # fmt: skip
    return b.elementwise(opposite[maker.name], *maker.inputs) if maker.name in opposite else None


def _select(at: Folder, b: Builder, op: Op) -> Value | None:
    condition, x, y = op.inputs
    number = at.uniform(condition)
    if number is not None:
        return x if number else y
    chosen = at.uniform(x), at.uniform(y)
    if x is y or (chosen[0] is not None and chosen[1] is not None and hashable(chosen[0]) == hashable(chosen[1])):
        return x
    if op.out.dtype == "bool":
        if chosen[0] is not None and chosen[1] is not None:
            return condition if chosen[0] else b.elementwise("not", condition)
        if chosen[1] is not None and not chosen[1]:
            return b.elementwise("and", condition, x)
        if chosen[0] is not None and chosen[0]:
            return b.elementwise("or", condition, y)
    maker = at.makers.get(condition)
    if maker is not None and maker.name == "not":
        return b.elementwise("select", maker.inputs[0], y, x)
    inner = at.makers.get(y)
    if inner is not None and inner.name == "select" and inner.inputs[0] is condition:
        return b.elementwise("select", condition, x, inner.inputs[2])
    inner = at.makers.get(x)
    if inner is not None and inner.name == "select" and inner.inputs[0] is condition:
        return b.elementwise("select", condition, inner.inputs[1], y)
    return None


def _compare_with_zero(at: Folder, b: Builder, op: Op) -> Value | None:
    """Whether a count of Booleans is 0 asks whether there is any."""
    for total, number in (op.inputs, op.inputs[::-1]):
        some = any_of(at, b, total) if is_number(at, number, 0) else None
        if some is not None:
            return some if op.name == "ne" else b.elementwise("not", some)
    return _compare_flag(at, b, op)


def _more_than_none(at: Folder, b: Builder, op: Op) -> Value | None:
    """A count that is above 0 is not 0."""
    return any_of(at, b, op.inputs[0]) if is_number(at, op.inputs[1], 0) else None


def any_of(at: Folder, b: Builder, total: Value) -> Value | None:
    """Whether there is any of the Booleans that a total counts; None where it is no such count."""
    count = at.makers.get(total)
    if count is None or count.name != "reduce" or count.attrs["kind"] != "sum":
        return None
    flags = flags_of(at, b, count.inputs[0]) if total.dtype in ("int32", "uint32") else None  # others may wrap to 0
    return None if flags is None else b.reduce(flags, "or")


def flags_of(at: Folder, b: Builder, numbers: Value) -> Value | None:
    """The Booleans that numbers are converted from, in the numbers' shape; None where there are none."""
    maker = at.makers.get(numbers)
    if maker is not None and maker.name == "view":
        flags = flags_of(at, b, maker.inputs[0])
        return None if flags is None else b.view(flags, numbers.shape, maker.attrs["offset"], maker.attrs["strides"])
    return maker.inputs[0] if maker is not None and is_flag(maker) else None


def is_flag(maker: Op) -> bool:
    """Whether it makes numbers of Booleans."""
    return maker.name == "convert" and maker.inputs[0].dtype == "bool"


def _compare_flag(at: Folder, b: Builder, op: Op) -> Value | None:
    """Comparisons of a converted Boolean with 0 or 1 are the Boolean or its opposite."""
    for flag, number in (op.inputs, op.inputs[::-1]):
        maker, value = at.makers.get(flag), at.uniform(number)
        if maker is None or value is None:
            continue
        inner = maker.inputs[0] if is_flag(maker) else flag
        if not is_flag(maker) and flag.dtype != "bool":
            continue
        if value not in (0, 1):
            return b.full(op.out.shape, op.name == "ne", "bool")
        return inner if bool(value) == (op.name == "eq") else b.elementwise("not", inner)
    return None


def _convert(at: Folder, b: Builder, op: Op) -> Value | None:
    maker = at.makers.get(op.inputs[0])
    if maker is None or maker.name != "convert":
        return None
    source, middle = maker.inputs[0], op.inputs[0].dtype
    if source.dtype == "bool" or {source.dtype, middle, op.out.dtype} <= {"int32", "uint32"}:
        return b.convert(source, op.out.dtype)
    return None


def _view(at: Folder, b: Builder, op: Op) -> Value | None:
    (x,) = op.inputs
    if op.out.shape == x.shape and op.attrs["offset"] == 0 and op.attrs["strides"] == row_major(x.shape):
        return x
    if not x.shape and not op.out.shape:
        return x
    maker = at.makers.get(x)
    if maker is None or not op.out.size:  # of nothing, nobody reads where it would lie
        return None
    if maker.name == "stack" and not op.out.shape:
        return maker.inputs[op.attrs["offset"]]
    if maker.name == "view" and (maker.attrs["strides"] == row_major(x.shape) or op.out.size == 1):
        inner = maker.attrs
        start = element_offset(op.attrs["offset"], x.shape, inner["strides"]) + inner["offset"]
        strides = op.attrs["strides"] if op.out.size > 1 else (0,) * len(op.out.shape)
        return b.view(maker.inputs[0], op.out.shape, start, strides)
    if maker.name == "view" and not maker.inputs[0].shape:
        return b.view(maker.inputs[0], op.out.shape, 0, (0,) * len(op.out.shape))
    if maker.name == "view":
        form = affine_form(places_of(maker).reshape(-1)[places_of(op)])
        return None if form is None else b.view(maker.inputs[0], op.out.shape, *form)
    if maker.name == "concat":
        return view_of_part(b, op, maker)
    return None


def places_of(view: Op) -> npt.NDArray[np.int64]:
    """Where in its flat source a view finds each element."""
    return affine_positions(view.out.shape, view.attrs["offset"], view.attrs["strides"])


def element_offset(position: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Where a view with these strides finds the element at a flat position of its shape."""
    offset = 0
    for size, dense, stride in zip(shape, row_major(shape), strides, strict=True):
        offset += (position // dense) % max(size, 1) * stride
    return offset


def _take(at: Folder, b: Builder, op: Op) -> Value | None:
    """At constant positions that an affine map describes, a view."""
    x, index = op.inputs
    places = at.constants.get(index)
    form = None if places is None or places.size == 0 else affine_form(places)
    return None if form is None else b.view(x, index.shape, *form)


def affine_form(places: npt.NDArray[Any]) -> tuple[int, list[int]] | None:
    """Offset and strides of the affine map that positions are; None where they are none."""
    offset = int(places[tuple(0 for _ in places.shape)])
    strides = [int(places[tuple(int(k == axis) for k in range(places.ndim))] - offset) if size > 1 else 0
               for axis, size in enumerate(places.shape)]  # fmt: skip
    return (offset, strides) if (affine_positions(places.shape, offset, strides) == places).all() else None


def view_of_part(b: Builder, op: Op, concat: Op) -> Value | None:
    """A view of one of the parts of a concatenation sees the part: of an index in several columns, one column."""
    axis: int = concat.attrs["axis"]
    whole = concat.out
    dense = row_major(whole.shape)
    places = places_of(op)
    along = places // dense[axis] % whole.shape[axis]
    start, first = 0, int(along.min())
    for part in concat.inputs:
        if start <= first < start + part.shape[axis]:
            if along.max() >= start + part.shape[axis]:
                return None
            width = dense[axis] * part.shape[axis]
            before, inside = places // (dense[axis] * whole.shape[axis]), places % dense[axis]
            form = affine_form(before * width + (along - start) * dense[axis] + inside)
            return None if form is None else b.view(part, op.out.shape, *form)
        start += part.shape[axis]
    return None


def _pick(at: Folder, _: Builder, op: Op) -> Value | None:
    index, *choices = op.inputs
    number = at.uniform(index)
    if number is not None:
        return choices[int(number)]
    return choices[0] if all(choice is choices[0] for choice in choices) else None


def _put(at: Folder, b: Builder, op: Op) -> Value | None:
    x, index, updates, mask = op.inputs
    allowed = at.uniform(mask)
    if allowed is not None and not allowed:
        return x
    places = at.constants.get(index)
    if places is None or not allowed or op.attrs["kind"] != "set" or places.size != x.size:
        return None
    if bool((places.reshape(-1) == np.arange(x.size)).all()):
        return b.reshape(updates, x.shape)
    return None


def is_number(at: Folder, value: Value, number: int) -> bool:
    """Whether every element is this number."""
    found = at.uniform(value)
    return found is not None and found == number


RULES = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "and": _and, "or": _or, "xor": _add, "not": _not,
    "select": _select, "eq": _compare_with_zero, "ne": _compare_with_zero, "gt": _more_than_none, "convert": _convert,
    "view": _view, "take": _take, "pick": _pick, "put": _put,
}  # fmt: skip
