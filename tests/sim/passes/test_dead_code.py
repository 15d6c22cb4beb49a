"""Dead code: only what some output needs is left, in loops and branches too."""

import jax
import jax.numpy as jnp
import numpy as np
from small_programs import assert_same_meaning, count, imported, small

from drivetrain.sim.ir.passes.dead_code import eliminate_dead
from drivetrain.sim.ir.passes.pipeline import simplified
from drivetrain.sim.ir.passes.scalars import scalarize

X = np.arange(-5, 6, dtype=np.float32)
WORDS = np.arange(22, dtype=np.uint32).reshape(11, 2)


def test_what_no_output_needs_disappears():
    block = imported(lambda x: (jnp.sin(x), x + 1)[1], X[0])
    assert count(eliminate_dead(block)) == {"add": 1}


def test_an_unused_half_of_a_key_split_costs_nothing():
    def draw(words, halves):
        keys = jax.random.split(jax.random.wrap_key_data(words))
        return [jax.random.bits(keys[k]) for k in halves]

    for halves, num_ciphers in (((0,), 2), ((1,), 2), ((0, 1), 4)):
        block = small(lambda words, halves=halves: draw(words, halves), WORDS[0])
        after = simplified(scalarize(block))
        assert count(after, "threefry") == num_ciphers  # a cipher for each half that is used, and one for its bits
        assert_same_meaning(block, after, WORDS)


def test_an_unused_result_of_a_branch_goes_with_what_computes_it():
    block = imported(lambda p, x: jax.lax.cond(p, lambda: (x, jnp.sin(x)), lambda: (-x, jnp.cos(x)))[0], True, X[0])
    after = eliminate_dead(block)
    assert (count(after, "sin"), count(after, "cos"), count(after, "neg")) == (0, 0, 1)
    assert_same_meaning(block, after, X > 0, X)


def test_a_carried_value_that_only_needs_itself_leaves_the_loop():
    def function(x):
        total, _, _ = jax.lax.fori_loop(0, 4, lambda i, c: (c[0] + i, jnp.sin(c[1]), c[2] * c[1]), (x, x, x))
        return total

    block = imported(function, X[0])
    after = eliminate_dead(block)
    (loop,) = (op for op in after.ops if op.regions)
    assert (count(block, "sin"), count(after, "sin"), count(after, "mul")) == (1, 0, 0)
    assert len(loop.outputs) < len(next(op for op in block.ops if op.regions).outputs)
    assert_same_meaning(block, after, X)


def test_a_carried_value_that_the_condition_or_another_value_needs_stays():
    def function(x):
        return jax.lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + abs(c[2]) + 1, c[1] + 1, c[2] * 2), (x, x, x))[
            1
        ]

    block = imported(function, X[0])
    after = eliminate_dead(block)
    assert len(next(op for op in after.ops if op.regions).outputs) == 3
    assert_same_meaning(block, after, X)
