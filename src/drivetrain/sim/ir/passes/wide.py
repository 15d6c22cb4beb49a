"""Wide values: arrays of at most 64 elements that stay arrays, since loops over them are what is wanted.

Layers of a perceptron have 64 units: written out as scalars they are thousands of operations that want 64 registers.
What a policy's parameters are, what a product of a vector and a matrix gives, and what is computed from it element by
element, is wide. So is what only wide operations read and what is the same in all its elements or constant.
"""

from collections import defaultdict
from collections.abc import Iterable

from drivetrain.sim.ir.ops import ELEMENTWISE
from drivetrain.sim.ir.program import Block, Op, Value, repeated_scalar

LEAST_WIDE = 16
"""Elements from which a product stays an array."""


def wide_values(block: Block, shared: Iterable[Value] = ()) -> set[Value]:
    """Those of a block, without its regions.

    Args:
        shared: Inputs that are the same for all environments: a policy's parameters.
    """
    given = {value for value in shared if value.shape}
    wide: set[Value] = set()
    for op in block.ops:
        if len(op.outputs) == 1 and op.out.size >= LEAST_WIDE and comes_wide(op, wide, given):
            wide.add(op.out)
    users: dict[Value, list[Op]] = defaultdict(list)
    for op in block.ops:
        for value in op.inputs:
            users[value].append(op)
    for op in reversed(block.ops):
        if op.name == "const" or repeated_scalar(op):
            readers = users[op.outputs[0]]
            if readers and op.out.shape and all(len(r.outputs) == 1 and r.out in wide for r in readers):
                wide.add(op.out)
    return wide | given


def comes_wide(op: Op, wide: set[Value], given: set[Value]) -> bool:
    """Whether the result of an operation is wide because of what it is or reads."""
    if op.name == "dot":
        return True
    if op.name == "view":
        return op.inputs[0] in given or (op.inputs[0] in wide and op.out.size == op.inputs[0].size)
    return op.name in ELEMENTWISE and op.name != "threefry" and any(value in wide for value in op.inputs)
