"""The order of the passes."""

from drivetrain.sim.ir.passes.cse import eliminate_common
from drivetrain.sim.ir.passes.dead_code import eliminate_dead
from drivetrain.sim.ir.passes.folding import fold
from drivetrain.sim.ir.passes.predicated_put import predicate_puts
from drivetrain.sim.ir.passes.scalars import scalarize
from drivetrain.sim.ir.passes.sinking import sink
from drivetrain.sim.ir.program import Block


def simplified(block: Block) -> Block:
    """Folding, common subexpressions and dead code, until nothing becomes less."""
    size = block.num_ops + 1
    while block.num_ops < size:
        size = block.num_ops
        block = eliminate_dead(eliminate_common(fold(block)))
    return block


def vectorizable(block: Block) -> Block:
    """A simplified block in the form that kernels are written from: scalars, and arrays beyond 64 elements."""
    return simplified(sink(predicate_puts(simplified(scalarize(block)))))
