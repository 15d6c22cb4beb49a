"""Predicated puts: a choice between an array and the array with elements set becomes a put that asks."""

import jax.numpy as jnp
import numpy as np
from small_programs import assert_same_meaning, count, small

from drivetrain.sim.ir.passes.pipeline import simplified
from drivetrain.sim.ir.passes.predicated_put import predicate_puts

rng = np.random.default_rng(0)
GRID = rng.normal(size=(21, 10, 10)).astype(np.float32)
HIT = rng.random(21) < 0.5
K = rng.integers(0, 10, 21, dtype=np.int32)


def predicated(function, *batches):
    block = small(function, *(batch[0] for batch in batches))
    after = simplified(predicate_puts(block))
    assert_same_meaning(block, after, *batches)
    return block, after


def test_a_select_of_an_array_and_its_change_needs_no_select():
    before, after = predicated(lambda p, k, x: jnp.where(p, x.at[k, k].set(9.0), x), HIT, K, GRID)
    assert count(before, "select") - count(after, "select") == 1
    assert count(after, "put") == 1


def test_the_change_may_be_in_the_other_case_and_be_several_puts():
    def function(p, k, x):
        return jnp.where(p, x, x.at[k, 0].set(9.0).at[0, k].add(1.0))

    before, after = predicated(function, HIT, K, GRID)
    assert count(before, "select") - count(after, "select") == 1
    assert count(after, "put") == 2


def test_a_change_that_somebody_else_reads_stays():
    def function(p, k, x):
        changed = x.at[k, k].set(9.0)
        return jnp.where(p, changed, x), changed.sum()

    before, after = predicated(function, HIT, K, GRID)
    assert count(after, "select") == count(before, "select")


def test_a_choice_element_by_element_stays():
    before, after = predicated(lambda k, x: jnp.where(x > 0, x.at[k, k].set(9.0), x), K, GRID)
    assert count(after, "select") == count(before, "select")


def test_a_change_that_is_put_into_itself_stays():
    def function(p, k, x):
        changed = x.at[k, k].set(9.0)
        return jnp.where(p, changed.at[jnp.roll(jnp.arange(10), 1)].set(changed), x)

    before, after = predicated(function, HIT, K, GRID)
    assert count(after, "put") == count(before, "put")
