"""Short rows: a reduction of many rows of a few elements is written out, `all(x == y, -1)` as `x0 == y0 and x1 == y1`.

What computes the elements is written once for each place in a row, over its inputs there. So the large array that the
rows came from is gone, and what is left is elementwise: engines can compute it where it is read.
"""

from drivetrain.sim.ir.build import Builder, row_major
from drivetrain.sim.ir.ops import ELEMENTWISE
from drivetrain.sim.ir.passes.renaming import renamed_op
from drivetrain.sim.ir.passes.scalars import MOST_ELEMENTS, reduced
from drivetrain.sim.ir.program import Block, Op, Value, map_regions, remade

MOST_IN_ROW = 4
LONGEST_CHAIN = 16
"""Operations behind an element that are written anew for each place in a row."""


def write_out_short_rows(block: Block) -> Block:
    """All such reductions, in regions too."""
    builder, renamed = Builder(), dict[Value, Value]()
    makers = {value: op for op in block.ops for value in op.outputs}
    for op in block.ops:
        builder.where = op.where
        new = renamed_op(map_regions(op, write_out_short_rows), renamed)
        if is_of_short_rows(op):
            places = range(op.inputs[0].shape[-1])
            row = [at_place(builder, makers, renamed, op.inputs[0], k) for k in places]
            renamed[op.out] = reduced(builder, op.attrs["kind"], row, op.out.dtype)
            continue
        builder.ops.append(new)
    return remade(block, builder.ops, renamed)


def is_of_short_rows(op: Op) -> bool:
    """Whether an operation reduces more rows than become scalars, of a few elements each."""
    if op.name != "reduce" or op.attrs["kind"] in ("argmax", "argmin") or op.out.dtype != op.inputs[0].dtype:
        return False
    return op.out.size > MOST_ELEMENTS and 1 <= op.inputs[0].shape[-1] <= MOST_IN_ROW


def at_place(b: Builder, makers: dict[Value, Op], renamed: dict[Value, Value], x: Value, place: int,
             left: int = LONGEST_CHAIN) -> Value:  # fmt: skip
    """Element `place` of every row of x: of an elementwise operation, computed from its inputs there."""
    op = makers.get(x)
    if op is None or op.name not in ELEMENTWISE or op.name == "threefry" or left <= len(op.inputs):
        return b.view(renamed.get(x, x), x.shape[:-1], place, row_major(x.shape)[:-1])
    each = (left - 1) // len(op.inputs)
    inputs = [at_place(b, makers, renamed, value, place, each) for value in op.inputs]
    return b.emit(op.name, inputs, x.shape[:-1], x.dtype, **op.attrs)
