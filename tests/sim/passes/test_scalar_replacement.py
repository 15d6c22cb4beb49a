"""Scalar replacement: arrays of at most 64 elements become scalars, and moving their elements becomes free."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_programs import assert_same_meaning, count, small

from drivetrain.sim.ir.passes.pipeline import simplified
from drivetrain.sim.ir.passes.scalars import scalarize

rng = np.random.default_rng(0)
GRID = np.round(rng.normal(size=(9, 4, 5)) * 3).astype(np.float32)


def scalars(function, *batches):
    """The program over scalars, checked to mean the same."""
    block = small(function, *(batch[0] for batch in batches))
    after = simplified(scalarize(block))
    assert_same_meaning(block, after, *batches)
    return after


def test_slices_stacks_and_reshapes_cost_nothing():
    after = scalars(lambda x: jnp.concatenate([x[1:3].T.reshape(-1), jnp.stack([x[0, 0], x[3, 4]]), x[::-1, 2]]), GRID)
    assert not count(after)
    assert len(after.inputs) == 20


def test_each_element_is_found_dead_on_its_own():
    after = scalars(lambda x: jnp.sin(x)[2, 3], GRID)
    assert count(after) == {"sin": 1}


@pytest.mark.parametrize(("size", "expected"), [(64, {"add": 64}), (65, {"add": 1})])
def test_sixty_four_elements_are_the_most(size, expected):
    x = rng.normal(size=(3, size)).astype(np.float32)
    assert count(scalars(lambda x: x + x, x)) == expected


def test_a_large_array_is_read_element_by_element_where_a_small_one_is_made_of_it():
    x = rng.normal(size=(3, 100)).astype(np.float32)
    after = scalars(lambda x: x[10:13] * 2, x)
    assert count(after) == {"view": 3, "mul": 3}


def test_puts_takes_sorts_and_sums_of_small_arrays_become_choices():
    places = rng.integers(0, 4, (9,), dtype=np.int32)

    def function(x, k):
        return x.at[k, 1].set(7.0), x[k], jnp.sort(x[0]), x.sum(1), jnp.argmax(x[1]), jnp.cumsum(x[2])

    names = count(scalars(function, GRID, places))
    assert not {"put", "take", "sort", "reduce", "cumulate", "view", "concat"} & set(names)
    assert names["pick"] == 5


def test_loops_carry_scalars():
    after = scalars(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x), GRID)
    (loop,) = (op for op in after.ops if op.regions)
    assert all(value.shape == () for value in loop.outputs)
    assert len(loop.outputs) == 20


def test_a_put_of_nothing_into_a_large_array_is_the_array():
    x, places = rng.normal(size=(9, 100)).astype(np.float32), rng.integers(0, 100, 9, dtype=np.int32)

    def function(x, k):
        return jax.lax.dynamic_update_slice(x, jnp.zeros(0), (k,)), jax.lax.pad(x[:0], x[k], [(50, 50, 0)])

    assert count(scalars(function, x, places))["put"] == 0
