"""What holds for every pass: random programs keep their meaning to the bit, alone and in the whole pipeline."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_programs import assert_same_meaning, imported, random_program

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
from drivetrain.sim.ir.passes.sorting import untie

PASSES = [
    fold, count_by_index, eliminate_common, eliminate_dead, convert_below_puts, predicate_puts, scalarize, sink,
    drop_bounds, untie,
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


ROUND = [fold, count_by_index, drop_bounds, eliminate_common, eliminate_dead]


@pytest.mark.parametrize("changed", ROUND, ids=lambda changed: changed.__name__)
def test_what_a_pass_has_nothing_to_do_with_is_not_built_anew(changed):
    def turn(i, x):
        return jax.lax.cond(x > i, lambda: x * 0.5, lambda: jnp.sin(x) + 1)

    def function(x):
        return jax.lax.fori_loop(0, 3, turn, jax.lax.while_loop(lambda y: y > 9, lambda y: y / 3, x))

    blocks = [imported(function, np.float32(20)), *(random_program(seed)[0] for seed in range(20))]
    for block in blocks:
        least, again = block, changed(block)
        while again.num_ops < least.num_ops:
            least, again = again, changed(again)
        assert changed(again) is again
