"""Passes: functions from a block to a block with the same meaning."""

from drivetrain.sim.ir.passes.cse import eliminate_common
from drivetrain.sim.ir.passes.dead_code import eliminate_dead
from drivetrain.sim.ir.passes.folding import fold
from drivetrain.sim.ir.program import Block

__all__ = ["simplified"]


def simplified(block: Block) -> Block:
    """Folding, common subexpressions and dead code, until nothing becomes less."""
    size = block.num_ops + 1
    while block.num_ops < size:
        size = block.num_ops
        block = eliminate_dead(eliminate_common(fold(block)))
    return block
