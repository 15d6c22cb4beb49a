"""Reductions of many short rows are written out, and large tables are computed where they are read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import Applied
from small_programs import assert_same_meaning, count, imported

from drivetrain.sim.engines.native.engine import layout_of
from drivetrain.sim.engines.native.kernel import write_kernel
from drivetrain.sim.ir.importer import import_jaxpr
from drivetrain.sim.ir.passes.pipeline import simplified, vectorizable
from drivetrain.sim.ir.passes.short_rows import write_out_short_rows
from drivetrain.sim.trace import trace

rng = np.random.default_rng(0)
N = 9
PLACES, OTHERS = (rng.integers(0, 6, (N, 70, 2), dtype=np.int32) for _ in range(2))


def meetings(x, y):
    """Whether each of 70 things is where each of 70 others is; who is met first, and whether anybody is."""
    same = jnp.all(x[:, None] == y[None], axis=-1)
    return jnp.argmax(same, axis=1), jnp.any(same, axis=1), jnp.sum(same, axis=0)


def scratch_nbytes(function, *batches):
    """Memory of one environment that the native engine needs for a function."""
    traced = trace(Applied(function, *(x[0] for x in batches)), None, "disabled", ("obs",))
    block = simplified(import_jaxpr(traced.jaxpr))
    return write_kernel(vectorizable(block), layout_of(block, traced)).scratch_nbytes


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(-1),
        lambda x: (x * 2 - 1).max(-1),
        lambda x: (x[..., ::-1] > 2).any(-1),
        lambda x: (x * x).prod(-1) + (x + 1).min(-1),
    ],
)
def test_rows_of_a_few_elements_become_elementwise_operations(function):
    table = rng.integers(-5, 6, (N, 9, 11, 3), dtype=np.int32)
    before = imported(function, table[0])
    after = write_out_short_rows(before)
    assert count(before, "reduce") > 0
    assert count(after, "reduce") == 0
    assert_same_meaning(before, after, table)


def test_long_rows_few_rows_and_arguments_of_extremes_stay():
    def function(x):
        return x.sum(), x.reshape(-1, 9).sum(-1), jnp.argmax(x, -1)

    block = imported(function, rng.normal(size=(9, 11, 3)).astype(np.float32))
    assert count(write_out_short_rows(block), "reduce") == count(block, "reduce") == 3


def test_a_table_of_all_pairs_needs_no_memory():
    assert scratch_nbytes(meetings, PLACES, OTHERS) < 70 * 70 * 4 // 4
    block = imported(meetings, PLACES[0], OTHERS[0])
    assert_same_meaning(block, vectorizable(simplified(block)), PLACES, OTHERS)


def test_a_table_that_is_dear_to_make_has_memory():
    def dear(x, y):
        table = jnp.sin(x[:, None, 0] * 1.0) * jnp.cos(y[None, :, 0] * 1.0)
        table = jnp.tanh(table + x[:, None, 1])
        return table.sum(0), table.max(1)

    assert scratch_nbytes(dear, PLACES, OTHERS) >= 70 * 70 * 4


def test_rows_that_a_loop_or_a_branch_reads_are_written_out_before_it():
    def function(table, start):
        rows = table.sum(-1)
        total = jax.lax.fori_loop(0, 3, lambda i, total: total + rows[i], start)
        return jax.lax.cond(start > 4, lambda: rows * 2, lambda: rows - total)

    table, starts = rng.integers(-5, 6, (N, 70, 2), dtype=np.int32), np.arange(N, dtype=np.int32)
    before = imported(function, table[0], starts[0])
    assert_same_meaning(before, write_out_short_rows(before), table, starts)
