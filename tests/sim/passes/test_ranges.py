"""Range analysis: what the possible values of integers decide is not computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_programs import assert_same_meaning, count, imported, written

from drivetrain.sim.ir.passes import pipeline
from drivetrain.sim.ir.passes.dead_code import eliminate_dead
from drivetrain.sim.ir.passes.folding import fold
from drivetrain.sim.ir.passes.pipeline import simplified
from drivetrain.sim.ir.passes.ranges import drop_bounds

rng = np.random.default_rng(0)
INTS = np.concatenate([rng.integers(-100, 100, 60), [-(2**31), 2**31 - 1, 0, -1, 9, 10]]).astype(np.int32)
TABLE = jnp.arange(10) * 3


def analysed(function, *batches):
    """What is left with range analysis, after checking that it means the same."""
    block = imported(function, *(batch[0] for batch in batches))
    after = simplified(block)
    assert_same_meaning(block, after, *batches)
    return after


def test_a_position_that_lies_inside_is_neither_wrapped_nor_clamped():
    names = count(analysed(lambda x: TABLE[jnp.clip(x, 0, 9)], INTS))
    assert (names["max"], names["min"], names["lt"], names["select"]) == (1, 1, 0, 0)
    assert not {"max", "min"} & set(count(analysed(lambda x: TABLE[x % 10], INTS)))
    assert not {"max", "min", "lt"} & set(count(analysed(lambda x: TABLE[x & 7], INTS)))


def test_a_position_that_may_lie_outside_is_clamped():
    assert {"max", "min"} <= set(count(analysed(lambda x: TABLE[x], INTS)))


def test_what_wraps_around_may_be_anything():
    names = count(analysed(lambda x: jnp.abs(x) >= 0, INTS))  # of the smallest int32 it is negative
    assert "ge" in names
    assert count(analysed(lambda x: jnp.abs(x | 1) + 1 > 0, INTS), "gt") == 1
    assert not count(analysed(lambda x: jnp.abs(x % 100) + 1 > 0, INTS))


def test_an_index_of_a_loop_lies_inside():
    def function(x):
        return jax.lax.fori_loop(0, 10, lambda i, c: c.at[i].add(TABLE[i]), x)

    x = rng.integers(0, 9, (7, 10), dtype=np.int32)
    names = count(analysed(function, x))
    assert not {"max", "min", "lt", "select"} & set(names)


def test_the_place_of_an_extreme_lies_inside():
    x = rng.integers(0, 9, (7, 10), dtype=np.int32)
    assert not {"max", "min"} & set(count(analysed(lambda x: TABLE[jnp.argmax(x)], x)))


@pytest.mark.parametrize(("name", "other", "is_left"), [
    ("max", -10, False), ("max", -9, False), ("max", -8, True), ("min", 9, False), ("min", 8, True),
    ("lt", 10, False), ("lt", 9, True), ("gt", 9, False), ("gt", 8, True), ("eq", 10, False), ("eq", 9, True),
    ("rem", 11, True), ("ne", -10, False),
])  # fmt: skip
def test_the_ends_of_intervals_count(name, other, is_left):
    def write(b, x):
        return [b.elementwise(name, b.elementwise("rem", x, b.const(np.int32(10))), b.const(np.int32(other)))]

    block = written([((), "int32")], write)
    after = eliminate_dead(drop_bounds(block))
    assert_same_meaning(block, after, INTS)
    assert count(after, name) == is_left + (name == "rem")  # the interval comes from a remainder


def test_random_programs_of_narrow_types_keep_their_meaning():
    def write(b, x, y):
        narrow, wide = b.convert(x, "uint8"), b.convert(b.convert(y, "int8"), "int32")
        total = b.elementwise("add", narrow, narrow)
        less = b.elementwise("lt", total, b.full((), 255, "uint8"))
        return [b.elementwise("max", b.convert(total, "int32"), wide), less,
                b.elementwise("ge", wide, b.full((), -128, "int32")),
                b.elementwise("shr_logical", narrow, b.full((), 4, "uint8"))]  # fmt: skip

    block = written([((), "int32"), ((), "int32")], write)
    after = eliminate_dead(fold(drop_bounds(block)))
    assert_same_meaning(block, after, INTS, INTS[::-1])
    assert not count(after, "ge")


def test_an_element_of_a_row_asks_only_for_the_row_and_of_its_own_update():
    def function(row, new, table):
        return table.at[row].set(new)

    rows = np.arange(-3, 13, dtype=np.int32)
    table, new = (rng.integers(0, 9, (len(rows), *shape), dtype=np.int32) for shape in ((8, 5), (5,)))
    block = imported(function, rows[0], new[0], table[0])
    after = pipeline.vectorizable(simplified(block))
    assert count(after, "select") <= 41  # one for each element, and one for rows counted from the end
    assert count(after, "eq") == 8


def test_a_multiple_that_may_wrap_is_compared_itself():
    def function(x):
        inside = jnp.clip(x, -50, 50) * 4 + 1
        return x * 4 + 1 == 9, inside == 10, inside != 9

    names = count(analysed(function, INTS))
    assert (names["eq"], names["ne"], names["mul"]) == (1, 1, 1)


def test_clamps_of_an_environment_disappear(monkeypatch):
    def step(board, x):
        row, column = (x // 5) % 5, x % 5
        return board.at[row, column].set(1.0), board[row, (column + 1) % 5]

    board = rng.normal(size=(66, 5, 5)).astype(np.float32)
    with_ranges = analysed(step, board, INTS).num_ops
    monkeypatch.setattr(pipeline, "drop_bounds", lambda block: block)
    assert with_ranges < analysed(step, board, INTS).num_ops


def test_a_condition_of_which_each_part_is_part_of_several_is_not_followed_to_its_end():
    def write(b, x, one, two):
        reached = b.elementwise("lt", x, b.const(np.int32(5)))
        for _ in range(40):  # as a board is filled from a cell to its neighbours
            reached = b.elementwise("or", b.elementwise("and", reached, one), b.elementwise("and", reached, two))
        return [b.elementwise("select", reached, x, b.const(np.int32(5)))]

    block = written([((), "int32"), ((), "bool"), ((), "bool")], write)
    assert_same_meaning(block, drop_bounds(block), INTS, INTS > 0, INTS < 9)
