"""Common subexpressions: written once in every scope."""

import jax
import jax.numpy as jnp
import numpy as np
from small_programs import assert_same_meaning, count, imported, written

from drivetrain.sim.ir.passes.cse import eliminate_common
from drivetrain.sim.ir.passes.dead_code import eliminate_dead

X = np.arange(-5, 6, dtype=np.float32)


def test_what_was_computed_before_is_not_computed_again():
    block = imported(lambda x: jnp.sin(x) * jnp.cos(x) + jnp.sin(x), X[0])
    after = eliminate_common(block)
    assert (count(block, "sin"), count(after, "sin")) == (2, 1)
    assert_same_meaning(block, after, X)


def test_the_order_of_inputs_only_counts_where_it_matters():
    block = imported(lambda x, y: (x * y + y * x, (x - y) * (y - x)), X[0], X[0])
    after = eliminate_common(block)
    assert (count(after, "mul"), count(after, "sub")) == (2, 2)
    assert_same_meaning(block, after, X, X[::-1])


def test_equal_constants_are_one_but_zeros_of_different_sign_are_two():
    block = written([], lambda b: [b.const(np.float32(0.0)), b.const(np.float32(-0.0)), b.const(np.float32(0.0))])
    plus, minus, again = eliminate_common(block).outputs
    assert plus is again
    assert plus is not minus


def test_regions_see_what_came_before_them_and_not_each_other():
    def function(p, x):
        y = jnp.exp(x)
        z = jax.lax.cond(p, lambda: jnp.exp(x) + jnp.sin(x), lambda: jnp.sin(x))
        return y, z, jnp.sin(x)

    block = imported(function, jnp.bool_(True), X[0])
    after = eliminate_dead(eliminate_common(block))
    assert count(block) - count(after) == {"exp": 1}
    assert count(after, "sin") == 3
    assert_same_meaning(block, after, X > 0, X)
