"""Common subexpressions: an operation that was written before, here or in a block around, is not written again."""

from collections.abc import Hashable

from drivetrain.sim.ir.program import Block, Op, Value, attrs_key, rebuilt, remade

COMMUTE = {"add", "mul", "max", "min", "and", "or", "xor", "eq", "ne"}


def eliminate_common(block: Block) -> Block:
    """Each value computed once in every scope. Regions see what came before them, not each other."""
    return scoped(block, {}, {})


def scoped(block: Block, seen: dict[Hashable, tuple[Value, ...]], renamed: dict[Value, Value]) -> Block:
    """One block, knowing the operations of those around it."""
    seen, renamed = dict(seen), dict(renamed)
    ops: list[Op] = []
    for op in block.ops:
        regions = [scoped(region, seen, renamed) for region in op.regions]
        new = rebuilt(op, renamed, regions)
        first = op.outputs if op.regions else seen.setdefault(signature(new), op.outputs)
        if first is op.outputs:
            ops.append(new)
        else:
            renamed.update(zip(op.outputs, first, strict=True))
    return remade(block, ops, renamed)


def signature(op: Op) -> Hashable:
    """What two equal operations have in common."""
    numbers = [value.number for value in op.inputs]
    if op.name in COMMUTE:
        numbers.sort()
    return op.name, tuple(numbers), attrs_key(op), tuple((value.shape, value.dtype) for value in op.outputs)
