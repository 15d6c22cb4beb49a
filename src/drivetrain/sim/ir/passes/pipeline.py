"""The order of the passes."""

from collections.abc import Iterable

from drivetrain.sim.ir.passes.converted_puts import convert_below_puts
from drivetrain.sim.ir.passes.counters import count_by_index
from drivetrain.sim.ir.passes.cse import eliminate_common
from drivetrain.sim.ir.passes.dead_code import eliminate_dead
from drivetrain.sim.ir.passes.folding import fold
from drivetrain.sim.ir.passes.predicated_put import predicate_puts
from drivetrain.sim.ir.passes.ranges import drop_bounds
from drivetrain.sim.ir.passes.scalars import scalarize
from drivetrain.sim.ir.passes.short_rows import write_out_short_rows
from drivetrain.sim.ir.passes.sinking import sink
from drivetrain.sim.ir.passes.sorting import untie
from drivetrain.sim.ir.program import Block, Value


def simplified(block: Block) -> Block:
    """Folding, counters, range analysis, common subexpressions and dead code, until nothing becomes less."""
    size = block.num_ops + 1
    while block.num_ops < size:
        size = block.num_ops
        block = eliminate_dead(eliminate_common(drop_bounds(count_by_index(fold(block)))))
    return block


def vectorizable(block: Block, shared: Iterable[Value] = ()) -> Block:
    """A simplified block in the form that kernels are written from: scalars, and arrays beyond 64 elements.

    Args:
        shared: Inputs that are the same for all environments.
    """
    block = simplified(scalarize(untie(write_out_short_rows(block)), shared))
    return simplified(sink(predicate_puts(convert_below_puts(block))))
