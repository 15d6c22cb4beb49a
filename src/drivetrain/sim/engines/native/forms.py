"""In which forms a step's kernel is written, and which of them serves how many environments.

tiles     one after the other; what every other form is held against
groups    of up to sixteen tiles, whose lanes share the branch that few of them take (groups.py)
pairs     of tiles, which share each weight that is read (layers.py); besides, tiles for few environments
"""

from collections.abc import Sequence

from drivetrain.core.errors import CompileError
from drivetrain.sim.engines.native.groups import write_groups
from drivetrain.sim.engines.native.heap import LEAST_SIZE
from drivetrain.sim.engines.native.kernel import write_kernel
from drivetrain.sim.engines.native.layout import Layout, step_inputs
from drivetrain.sim.engines.native.paying import groups_pay, pairs_pay
from drivetrain.sim.engines.native.split import split_of
from drivetrain.sim.engines.native.written import Written
from drivetrain.sim.ir.program import Block

MOST_STACK_NBYTES = 131072
"""Of memory in each lane; the tiles of a turn lie on a thread's stack."""
MOST_HEAP_NBYTES = 32 << 20
"""Of memory in each lane for large arrays, which lie on the heap where the stack has no room for all.

No thread has more lanes than there are environments to step, so it is never more than XLA takes for the same arrays.
"""
LEAST_ODD = 5
"""Tiles from which on one without a partner, which is computed twice, costs less than pairs gain."""


def write_forms(block: Block, layout: Layout) -> list[Written]:
    """The kernels of a step, the one for many environments first.

    Raises:
        CompileError: It needs more memory than there is for a kernel.
    """
    if pairs_pay(block, layout.shared):
        forms = [write_kernel(block, layout, num_tiles=2), write_kernel(block, layout)]
    else:
        given = step_inputs(block, layout)
        split = split_of(block, given.kept)
        is_grouped = split is not None and groups_pay(block, given, split)
        forms = [write_groups(block, layout, split) if split and is_grouped else write_kernel(block, layout)]
    fitting = [each for each in forms if each.scratch_nbytes <= MOST_STACK_NBYTES]
    if fitting:
        return fitting
    written = write_kernel(block, layout, on_heap=True)
    if written.scratch_nbytes - written.heap_nbytes <= MOST_STACK_NBYTES and written.heap_nbytes <= MOST_HEAP_NBYTES:
        return [written]
    raise CompileError(
        f"one environment needs {written.scratch_nbytes} bytes while it steps, {written.heap_nbytes} of them for "
        f"arrays of {LEAST_SIZE} elements and more, and a native kernel has {MOST_HEAP_NBYTES} for these and "
        f"{MOST_STACK_NBYTES} for the rest: make its arrays smaller, those between state and observation, "
        'too, or compile with engine="xla"'
    )


def form_for(forms: Sequence[Written], num_tiles: int, num_threads: int) -> Written:
    """Which of a step's kernels is for so many tiles: the first that has turns for all threads and wastes little."""
    for each in forms[:-1]:
        num_turns, num_left = divmod(num_tiles, each.num_tiles)
        if num_turns >= num_threads and (not num_left or num_tiles >= LEAST_ODD):
            return each
    return forms[-1]
