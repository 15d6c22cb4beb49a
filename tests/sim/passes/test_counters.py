"""Counters: what a loop adds a constant to in each turn is computed from the loop's own index."""

import jax
import jax.numpy as jnp
import numpy as np
from small_programs import assert_same_meaning, count, imported, small

from drivetrain.sim.ir.passes.counters import count_by_index
from drivetrain.sim.ir.passes.dead_code import eliminate_dead

X = np.arange(-5, 6, dtype=np.int32)


def carried(block):
    """How many values the only loop carries."""
    (loop,) = (op for op in block.walk() if op.name == "for")
    return len(loop.outputs)


def test_the_index_of_a_fori_loop_is_not_carried():
    block = small(lambda x: jax.lax.fori_loop(3, 9, lambda i, c: c * 2 + i, x), X[0])
    assert carried(block) == 1
    assert_same_meaning(imported(lambda x: jax.lax.fori_loop(3, 9, lambda i, c: c * 2 + i, x), X[0]), block, X)


def test_counters_of_any_step_and_type_and_their_last_value():
    def function(x):
        def body(carry, _):
            a, b, c, total = carry
            return (a - 3, b + jnp.uint32(2**31), c + x, total + a * c), b

        return jax.lax.scan(body, (jnp.int32(7), jnp.uint32(5), x, x), None, 5)

    before = imported(function, X[0])
    after = eliminate_dead(count_by_index(before))
    assert_same_meaning(before, after, X)
    assert carried(after) < carried(before)


def test_what_is_no_counter_stays():
    def function(x):
        return jax.lax.fori_loop(0, 4, lambda i, c: (c[0] + c[1], c[1] + c[1], c[2] * 2), (x, x + 1, 1))

    before = imported(function, X[0])
    after = count_by_index(before)
    assert_same_meaning(before, after, X)
    assert count(after, "for") == 1


def test_loops_in_loops():
    def function(x):
        return jax.lax.fori_loop(0, 3, lambda i, c: jax.lax.fori_loop(0, 4, lambda j, d: d * 3 + i * j, c), x)

    block = small(function, X[0])
    assert all(len(op.outputs) == 1 for op in block.walk() if op.name == "for")
    assert_same_meaning(imported(function, X[0]), block, X)
