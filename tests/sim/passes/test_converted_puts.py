"""Converted puts: what is built of a constant and then converted is built in the wanted type."""

import jax.numpy as jnp
import numpy as np
from small_programs import assert_same_meaning, count, small

from drivetrain.sim.ir.passes.converted_puts import convert_below_puts
from drivetrain.sim.ir.passes.pipeline import simplified

rng = np.random.default_rng(0)
K = rng.integers(-3, 13, 21, dtype=np.int32)
HIT = rng.random(21) < 0.5
GRID = rng.integers(0, 300, (21, 10, 10), dtype=np.int32)


def converted(function, *batches):
    block = small(function, *(batch[0] for batch in batches))
    after = simplified(convert_below_puts(block))
    assert_same_meaning(block, after, *batches)
    return after


def whole_conversions(block):
    return sum(op.name == "convert" and op.out.size == 100 for op in block.walk())


def test_an_observation_of_puts_into_zeros_is_built_in_its_own_type():
    def function(k, p):
        board = jnp.zeros((10, 10), bool).at[k, 3].set(True).at[0, k].set(p).at[9].set(jnp.arange(10) == k)
        return board.astype(jnp.float32), jnp.full((10, 10), 7).at[k, k].set(300).astype(jnp.uint8)

    after = converted(function, K, HIT)
    assert not whole_conversions(after)
    assert count(after, "put") == 4


def test_puts_that_add_or_that_somebody_else_reads_or_into_what_varies_stay():
    def function(k, board):
        shared = jnp.zeros((10, 10), jnp.int32).at[k, 3].set(300)
        added = jnp.zeros((10, 10), jnp.int32).at[k, 3].add(200).at[3, 3].add(200)
        return shared, *(x.astype(jnp.uint8) for x in (shared, added, board.at[k, 3].set(5)))

    assert whole_conversions(converted(function, K, GRID)) == 3


def test_a_board_that_is_put_into_itself_stays():
    def function(k):
        board = jnp.zeros(100, jnp.int32).at[k].set(7)
        places = jnp.full(100, 4).at[k].set(9)
        return board.at[::-1].set(board).astype(jnp.uint8), places.at[places].set(300).astype(jnp.uint8)

    assert whole_conversions(converted(function, K)) == 2
