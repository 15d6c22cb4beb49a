"""What holds for every pass: random programs keep their meaning to the bit, alone and in the whole pipeline."""

import numpy as np
import pytest
from small_programs import assert_same_meaning, random_program

from drivetrain.sim.ir.passes import pipeline
from drivetrain.sim.ir.passes.converted_puts import convert_below_puts
from drivetrain.sim.ir.passes.counters import count_by_index
from drivetrain.sim.ir.passes.cse import eliminate_common
from drivetrain.sim.ir.passes.dead_code import eliminate_dead
from drivetrain.sim.ir.passes.folding import fold
from drivetrain.sim.ir.passes.predicated_put import predicate_puts
from drivetrain.sim.ir.passes.ranges import drop_bounds
from drivetrain.sim.ir.passes.scalars import scalarize
from drivetrain.sim.ir.passes.sinking import sink

PASSES = [
    fold, count_by_index, eliminate_common, eliminate_dead, convert_below_puts, predicate_puts, scalarize, sink,
    drop_bounds,
    pipeline.simplified, pipeline.vectorizable,
]  # fmt: skip


@pytest.mark.parametrize("changed", PASSES, ids=lambda changed: changed.__name__)
def test_random_programs_keep_their_meaning(changed):
    for seed in range(20):
        block, arguments = random_program(seed)
        assert_same_meaning(block, changed(block), *arguments)


def test_random_programs_are_worth_checking():
    blocks = [random_program(seed) for seed in range(40)]
    fewer = sum(pipeline.simplified(block).num_ops < block.num_ops for block, _ in blocks)
    assert fewer == 40
    results = [pipeline.simplified(block).num_ops for block, _ in blocks]
    assert np.mean(results) > 5
