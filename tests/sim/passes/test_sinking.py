"""Sinking: what is only chosen where a condition holds is computed under it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_programs import assert_same_meaning, count, small

from drivetrain.sim.ir.passes.pipeline import simplified, vectorizable
from drivetrain.sim.ir.passes.scalars import scalarize
from drivetrain.sim.ir.passes.sinking import sink

rng = np.random.default_rng(0)
WORDS = rng.integers(0, 2**32, (20, 2), dtype=np.uint32)
FLAGS = rng.random(20) < 0.5
X = rng.normal(size=20).astype(np.float32)


def sunk(function, *batches):
    block = simplified(scalarize(small(function, *(batch[0] for batch in batches))))
    after = simplified(sink(block))
    assert_same_meaning(block, after, *batches)
    return after


def outside(block):
    """Names of operations that run whether a branch is taken or not."""
    return [op.name for op in block.ops]


def draw(words):
    return jax.random.uniform(jax.random.wrap_key_data(words))


def test_random_numbers_of_a_reset_are_drawn_under_its_condition():
    after = sunk(lambda p, words, x: jnp.where(p, draw(words), x + 1), FLAGS, WORDS, X)
    assert "threefry" not in outside(after)
    (branch,) = (op for op in after.ops if op.name == "if")
    assert branch.inputs == (after.inputs[0],)
    assert count(after, "threefry") == 1


def test_what_is_needed_elsewhere_stays_outside():
    def function(p, words, x):
        number = draw(words)
        return jnp.where(p, number, x), number

    after = sunk(function, FLAGS, WORDS, X)
    assert "threefry" in outside(after)
    assert not count(after, "if")


def test_work_that_needs_a_choice_by_way_of_what_stays_outside_is_not_in_one_branch_with_it():
    def function(p, words, others, x):
        chosen = jnp.where(p, draw(words), x)
        outside = chosen + 1  # has another user, so it stays
        return jnp.where(p, draw(others) * outside, x), outside

    after = sunk(function, FLAGS, WORDS, WORDS[::-1], X)
    assert count(after, "if") == 1, "the first choice; the second one needs it"
    assert "threefry" in outside(after)


def test_a_choice_whose_other_case_needs_a_choice_by_way_of_what_stays_outside_is_not_in_one_branch_with_it():
    def function(p, words, others, x):
        outside = jnp.where(p, draw(words), x) + 1
        return jnp.where(p, draw(others), outside), outside

    after = sunk(function, FLAGS, WORDS, WORDS[::-1], X)
    assert count(after, "if") == 1


def test_cheap_work_is_not_worth_a_branch():
    assert not count(sunk(lambda p, x: jnp.where(p, x * 2 + 1, x), FLAGS, X), "if")


def test_any_condition_qualifies_not_only_the_end_of_an_episode():
    after = sunk(lambda words, x: jnp.where(x > 0.5, draw(words), x), WORDS, X)
    assert count(after, "if") == 1


def test_choices_by_the_condition_inside_the_branch_are_decided():
    def function(p, words, x):
        fresh = jnp.where(p, draw(words), x)
        return jnp.where(p, jnp.sin(fresh) * jnp.cos(fresh) * jnp.exp(fresh), x)

    after = sunk(function, FLAGS, WORDS, X)
    (branch,) = (op for op in after.ops if op.name == "if")
    assert not any(op.name == "select" for op in branch.regions[0].walk())


def test_two_conditions_get_two_branches():
    def function(p, q, words, x):
        return jnp.where(p, draw(words), x), jnp.where(q, draw(words + 1), x)

    assert count(sunk(function, FLAGS, FLAGS[::-1], WORDS, X), "if") == 2


@pytest.mark.parametrize("positions", [100, 9], ids=["memory", "scalars"])
def test_positions_that_a_decided_choice_kept_inside_an_array_stay_inside_in_the_lanes_that_do_not_take_the_branch(
    positions,
):
    """NumPy refuses positions outside; a kernel would read and write the memory beside the array."""

    def function(x):
        turned = jax.lax.rem(x, positions)
        place = jnp.where(turned < 0, turned + positions, turned)  # known to lie inside, so that nothing clamps it
        table = jnp.arange(positions) * x
        read = jnp.sin(table[place] * 0.1) * jnp.exp(jnp.cos(x * 0.1))
        return jnp.where(turned < 0, read, 0.0), jnp.where(turned < 0, jnp.cumsum(table.at[place].set(7)), x)

    block = vectorizable(small(function, np.int32(0)))
    assert count(block, "if") == 1
    places = np.array([-99, -1, 0, 1, 8, 99, 1234, -1234], np.int32)
    assert_same_meaning(small(function, np.int32(0)), block, places)
