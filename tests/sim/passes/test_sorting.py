"""Sorts: any network of exchanges sorts rows that differ as a stable sort does, and few exchanges are enough."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_programs import assert_same_meaning, count, small

from drivetrain.sim.ir.passes.pipeline import simplified, vectorizable
from drivetrain.sim.ir.passes.sorting import merge_exchange, untie

rng = np.random.default_rng(0)
ORDINARY, NAN = (-np.inf, -2.5, -1.0, -0.0, 0.0, 1.0, 3.4e38, np.inf), np.float32([np.nan, -np.nan])
FLOATS = np.concatenate([np.float32(ORDINARY), NAN])
INTEGERS = np.int32([-(2**31), -1, 0, 1, 2**31 - 1])


def exchanged(rows):
    """Rows after every exchange of the network."""
    rows = rows.copy()
    for i, k in merge_exchange(rows.shape[1]):
        rows[:, i], rows[:, k] = np.minimum(rows[:, i], rows[:, k]), np.maximum(rows[:, i], rows[:, k])
    return rows


@pytest.mark.parametrize("size", range(1, 13))
def test_the_network_sorts_all_rows_of_zeros_and_ones_and_so_all_rows(size):
    rows = np.array(list(itertools.product([0, 1], repeat=size)), np.int8).reshape(-1, size)
    np.testing.assert_array_equal(exchanged(rows), np.sort(rows, 1))


@pytest.mark.parametrize("size", [13, 20, 31, 33, 64, 100])
def test_the_network_sorts_rows_that_rise_after_ones_that_do_not(size):
    rows = rng.permuted(np.tile(np.arange(size), (300, 1)), axis=1)
    np.testing.assert_array_equal(exchanged(rows), np.tile(np.arange(size), (300, 1)))


@pytest.mark.parametrize(("size", "expected"), [(2, 1), (4, 5), (8, 19), (16, 63), (20, 97), (32, 191)])
def test_the_network_has_few_exchanges(size, expected):
    assert len(list(merge_exchange(size))) == expected


def bits(x):
    """What tells zeros of both signs apart, and NaN."""
    return jax.lax.bitcast_convert_type(x, jnp.int32)


def every_order(f, g, i, u, narrow, alive):
    """Sorts by one key and several, alone and with columns, of every type."""
    k = jnp.arange(f.shape[-1])
    alone = [bits(jnp.sort(f)), jnp.sort(i), jnp.sort(u), jnp.sort(narrow), jnp.sort(alive)]
    order = [jnp.argsort(x) for x in (f, i, u, narrow, alive)]
    pairs = [jax.lax.sort(columns, num_keys=1) for columns in ((f, g), (narrow, f, k), (alive, i), (k, f))]
    mixed = [jax.lax.sort(columns, num_keys=2) for columns in ((f, g, k), (alive, u, f), (k, narrow, g))]
    return alone, order, jax.tree.map(lambda x: bits(x) if x.dtype == jnp.float32 else x, (pairs, mixed))


def arguments(size, num_envs=40):
    """Rows with many that are equal."""
    shape = num_envs, size
    numbers = rng.choice(INTEGERS, shape)
    return (rng.choice(FLOATS, shape), rng.choice(FLOATS, shape), numbers, numbers.astype(np.uint32),
            rng.integers(-128, 128, shape).astype(np.int8), rng.random(shape) < 0.5)  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 8, 9, 20, 70])
@pytest.mark.parametrize("changed", [untie, vectorizable])
def test_every_order_stays_to_the_bit(changed, size):
    batches = arguments(size)
    block = small(every_order, *(batch[0] for batch in batches))
    assert_same_meaning(block, changed(block), *batches)


def test_sorts_of_numbers_are_smaller_and_larger_ones():
    assert count(vectorizable(small(jnp.sort, np.zeros(8, np.int32)))) == {"min": 19, "max": 19}
    assert count(vectorizable(small(jnp.sort, np.zeros(8, bool)))) == {"and": 19, "or": 19}


def test_the_order_by_a_narrow_key_moves_one_number():
    after = count(vectorizable(small(jnp.argsort, np.zeros(16, np.int8))))
    assert after == {"convert": 16, "shl": 16, "or": 15, "min": 63, "max": 63, "and": 16}


def test_the_order_by_a_key_moves_the_key_and_the_place_and_what_nobody_uses_stays():
    block = untie(small(jnp.argsort, np.zeros(100, np.float32)))
    (sort,) = (op for op in block.ops if op.name == "sort")
    assert [value.dtype for value in sort.inputs] == ["int32", "int32"]
    block = untie(small(lambda x, y: jax.lax.sort((x, y, y * 2), num_keys=1)[1], *[np.zeros(100, np.float32)] * 2))
    (sort,) = (op for op in block.ops if op.name == "sort")
    assert [value.dtype for value in sort.inputs] == ["int32", "int32", "float32"]


def test_sorts_in_branches_and_loops_are_untied_too():
    def function(x, p):
        order = jax.lax.cond(p, lambda: jnp.argsort(x), lambda: jnp.argsort(-x))
        return order, jax.lax.fori_loop(0, 3, lambda i, y: jnp.sort(y) * (i - 1), x)

    batches = rng.choice(FLOATS, (40, 9)), rng.random(40) < 0.5
    block = small(function, *(batch[0] for batch in batches))
    after = untie(block)
    assert all(len(op.inputs) == 1 or op.attrs["num_keys"] == 2 for op in after.walk() if op.name == "sort")
    assert_same_meaning(block, after, *batches)
    assert_same_meaning(block, simplified(vectorizable(block)), *batches)


@pytest.mark.parametrize(("size", "expected"), [(24, 0), (48, 1)])
def test_a_long_sort_stays_one_operation(size, expected):
    assert count(vectorizable(small(jnp.argsort, np.zeros(size, np.float32))))["sort"] == expected
