"""Other names for values, in an operation and in all blocks inside it."""

from drivetrain.sim.ir.program import Block, Op, Value, rebuilt, remade


def renamed_op(op: Op, renamed: dict[Value, Value]) -> Op:
    """The operation with every use of a value in `renamed` replaced."""
    return rebuilt(op, renamed, [renamed_block(region, renamed) for region in op.regions])


def renamed_block(block: Block, renamed: dict[Value, Value]) -> Block:
    """As `renamed_op`, for a block."""
    return remade(block, [renamed_op(op, renamed) for op in block.ops], renamed) if renamed else block
