"""What the native engine decides for arrays beyond 64 elements: which need memory, one loop or several, in place."""

import re

import jax
import jax.numpy as jnp
import numpy as np
from comparing import Applied
from small_programs import small, written

from drivetrain.sim.engines.native.engine import source_of
from drivetrain.sim.engines.native.plan import Plan
from drivetrain.sim.trace import trace

GRID, NUMBER = np.zeros((9, 11), np.float32), np.int32(0)


def source(function, *examples):
    """The C++ of a function of an environment's action."""
    return source_of(trace(Applied(function, *examples), None, "disabled", ("obs",)))


def buffers(text):
    """Arrays with memory of their own."""
    return re.findall(r"v[fiu] a\d+\[", text)


def loops(text):
    """How many loops over elements there are, but for those that load and store."""
    return len(re.findall(r"for \(int i\d+ = ", text))


def test_a_chain_of_elementwise_operations_is_one_loop_and_one_array():
    text = source(lambda x: jnp.maximum(x * 2 + 1, 0) - x, GRID)
    assert len(buffers(text)) == 1
    assert loops(text) == 1  # over the flat array: the dimensions are collapsed


def test_a_sum_takes_in_what_computes_its_elements():
    text = source(lambda x: (x * x + 1).sum(), GRID.reshape(-1))
    assert not buffers(text)


def test_a_transpose_in_the_chain_needs_a_loop_per_dimension():
    text = source(lambda x: x.T * 2 + 1, GRID)
    assert len(buffers(text)) == 1
    assert loops(text) == 2


def test_what_two_consumers_read_is_computed_once_into_memory():
    assert len(buffers(source(lambda x: (jnp.sin(x).sum(), jnp.sin(x).max()), GRID))) == 1


def test_the_last_reader_of_an_array_writes_in_place():
    text = source(lambda x, k: (x + 1).at[k, k].set(0.0).at[0, k].set(1.0), GRID, NUMBER)
    assert len(buffers(text)) == 1


def test_an_array_that_is_read_again_is_copied_first():
    text = source(lambda x, k: ((x + 1).at[k, k].set(0.0), (x + 1).sum(0)), GRID, NUMBER)
    assert len(buffers(text)) == 2  # x + 1 and its changed copy


def test_memory_that_nobody_reads_any_more_is_used_again():
    def sorted_so_often(rounds):
        def function(x, k):
            for _ in range(rounds):
                x = jnp.sort(x, 0) + x[k, k]
            return x

        return buffers(source(function, GRID, NUMBER))

    assert len(sorted_so_often(2)) == len(sorted_so_often(5)) <= 5  # of floats, and of the integers that are sorted


def test_memory_is_kept_for_a_later_reader():
    def function(x, k):
        first = jnp.sort(x, 0)
        second = jnp.sort(first + k, 0)
        return second + first, jnp.sort(second, 1)

    assert len(buffers(source(function, GRID, NUMBER))) >= 3


def test_rows_of_scanned_arrays_are_read_and_written_at_the_loop_s_own_index():
    def function(x, y):
        return jax.lax.scan(lambda c, rows: (c + rows[0], rows[0] * rows[1] + c), 0.0, (x, y))

    text = source(function, GRID.reshape(-1), GRID.reshape(-1))
    assert "gather(" not in text
    assert "scatter(" not in text


def test_places_that_differ_between_environments_are_gathered():
    def function(x, k):
        return jax.lax.fori_loop(0, 9, lambda i, c: c + x[i, k] + x[i, i], 0.0)

    text = source(function, GRID, NUMBER)
    assert text.count("gather(") == 1


def test_a_plan_says_which_values_have_no_memory():
    block = small(lambda x: jnp.sin(x * 2) + 1, GRID)
    plan = Plan(block)
    assert {plan.makers[value].name for value in plan.virtual} >= {"mul", "sin"}
    assert block.outputs[0] not in plan.virtual


def test_the_start_of_an_episode_is_built_where_the_observation_lies():
    def function(k, done, words):
        board = jnp.zeros((9, 11), bool).at[k, 3].set(True)
        drawn = (jax.random.bits(jax.random.wrap_key_data(words)) % 9).astype(jnp.int32)
        start = jnp.zeros((9, 11), bool).at[drawn, 0].set(True).at[0, drawn].set(True)
        return jnp.where(done, start.astype(jnp.float32), board.astype(jnp.float32))

    text = source(function, NUMBER, np.bool_(False), np.zeros(2, np.uint32))
    assert len(buffers(text)) == 1
    assert text.count("scatter(") == 3


def test_a_long_row_is_read_until_every_lane_knows_the_answer():
    assert "any(~" in source(lambda x, k: (x == k).any(), GRID.reshape(-1), NUMBER)
    assert "any(~" not in source(lambda x, k: (x == k).any(), GRID[0], NUMBER)


def test_of_a_chain_of_hundreds_of_operations_a_hundred_are_one_loop():
    def write(b, x):
        for k in range(400):
            x = b.elementwise("add", x, b.const(np.float32(k)))
        return [x]

    block = written([((70,), "float32")], write)
    adds, plan = [op.out for op in block.ops if op.name == "add"], Plan(block)
    assert [k for k, value in enumerate(adds) if value not in plan.virtual] == [99, 199, 299, 399]
