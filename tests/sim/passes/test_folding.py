"""Folding: constants are computed now, what changes nothing disappears, and no bit of a result changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_programs import assert_same_meaning, count, written

from drivetrain.sim.ir.passes.dead_code import eliminate_dead
from drivetrain.sim.ir.passes.folding import fold

rng = np.random.default_rng(0)
INT, FLOAT, BOOL = ((), "int32"), ((), "float32"), ((), "bool")
INTS = rng.integers(-5, 6, 50, dtype=np.int32)
FLAGS = rng.random(50) < 0.5
ODD_FLOATS = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-45], np.float32)


def folded(inputs, write, *arguments):
    """The block that is left of what `write` writes, after checking that it means the same."""
    before = written(inputs, lambda b, *values: [write(b, *values)])
    after = eliminate_dead(fold(before))
    assert_same_meaning(before, after, *arguments)
    return after


def number(b, value, dtype="int32"):
    return b.const(np.asarray(value, dtype))


def test_operations_on_constants_are_done_now():
    after = folded([INT], lambda b, x: b.elementwise("add", x, b.elementwise("mul", number(b, 6), number(b, 7))), INTS)
    assert count(after) == {"add": 1}
    (constant,) = (op for op in after.ops if op.name == "const")
    assert constant.attrs["value"] == 42


@pytest.mark.parametrize(("name", "neutral"), [("add", 0), ("sub", 0), ("mul", 1), ("div", 1), ("or", 0), ("xor", 0)])
def test_a_neutral_number_disappears(name, neutral):
    after = folded([INT], lambda b, x: b.elementwise(name, x, number(b, neutral)), INTS)
    assert after.outputs == after.inputs


def test_a_float_times_zero_stays_because_of_infinity_and_nan():
    after = folded([FLOAT], lambda b, x: b.elementwise("mul", x, number(b, 0, "float32")), ODD_FLOATS)
    assert count(after) == {"mul": 1}
    assert not count(folded([INT], lambda b, x: b.elementwise("mul", x, number(b, 0)), INTS))


def test_the_opposite_of_a_comparison_is_a_comparison_but_for_floats():
    def write(b, x, y):
        return b.elementwise("not", b.elementwise("lt", x, y))

    assert count(folded([INT, INT], write, INTS, INTS[::-1])) == {"ge": 1}
    assert count(folded([FLOAT, FLOAT], write, ODD_FLOATS, ODD_FLOATS[::-1])) == {"lt": 1, "not": 1}


def test_a_comparison_of_a_converted_flag_is_the_flag():
    def write(b, p):
        return b.elementwise("eq", b.convert(p, "int32"), number(b, 1))

    assert folded([BOOL], write, FLAGS).outputs[0].dtype == "bool"
    assert not count(folded([BOOL], write, FLAGS))
    assert count(folded([BOOL], lambda b, p: b.elementwise("ne", b.convert(p, "int32"), number(b, 1)), FLAGS)) == {
        "not": 1
    }


@pytest.mark.parametrize(
    ("name", "left"), [("eq", {"reduce": 1, "not": 1}), ("ne", {"reduce": 1}), ("gt", {"reduce": 1})]
)
def test_whether_a_count_of_flags_is_zero_asks_for_any(name, left):
    rows = np.array([[False] * 3, [True] * 3, [False, True, False]])

    def write(b, p):
        return b.elementwise(name, b.reduce(b.convert(p, "int32"), "sum"), number(b, 0))

    after = folded([((3,), "bool")], write, rows)
    assert count(after) == left
    assert [op.attrs["kind"] for op in after.ops if op.name == "reduce"] == ["or"]


def test_a_count_in_few_bits_stays_since_it_may_wrap_to_zero():
    def write(b, p):
        return b.elementwise("eq", b.reduce(b.convert(p, "uint8"), "sum"), number(b, 0, "uint8"))

    flags = np.stack([np.zeros(256, bool), np.ones(256, bool), np.arange(256) == 7])
    assert "sum" in [op.attrs.get("kind") for op in folded([((256,), "bool")], write, flags).ops]


def test_a_number_times_a_flag_is_a_choice():
    after = folded([INT, BOOL], lambda b, x, p: b.elementwise("mul", x, b.convert(p, "int32")), INTS, FLAGS)
    assert count(after) == {"select": 1}


def test_selects_of_flags_become_logic():
    def write(b, p, q):
        return b.elementwise("select", p, q, number(b, False, "bool"))

    assert count(folded([BOOL, BOOL], write, FLAGS, FLAGS[::-1])) == {"and": 1}


def test_a_choice_inside_the_same_choice_is_decided():
    def write(b, p, x, y, z):
        return b.elementwise("select", p, x, b.elementwise("select", p, y, z))

    after = folded([BOOL, INT, INT, INT], write, FLAGS, INTS, INTS[::-1], INTS + 1)
    assert count(after) == {"select": 1}


def test_a_view_of_a_view_is_one_view():
    grid = np.arange(50 * 12, dtype=np.int32).reshape(50, 3, 4)
    after = folded([((3, 4), "int32")], lambda b, x: b.transpose(b.slice(x, (1, 0), (3, 4), (1, 2)), (1, 0)), grid)
    assert count(after) == {"view": 1}
    after = folded([((3, 4), "int32")], lambda b, x: b.slice(b.reshape(b.transpose(x, (1, 0)), (4, 3)), (1, 0), (2, 3),
                   (1, 1)), grid)  # fmt: skip
    assert count(after) == {"view": 1}
    after = folded([((3, 4), "int32")], lambda b, x: b.view(b.view(b.transpose(x, (1, 0)), (2, 3), 3, (3, 1)), (), 4,
                   ()), grid)  # fmt: skip
    assert count(after)["view"] <= 2


@pytest.mark.parametrize("column", range(3))
def test_a_column_of_an_index_of_several_is_that_index(column):
    def write(b, *indices):
        columns = b.concat([b.reshape(index, (5, 20, 1)) for index in indices], 2)
        return b.elementwise("neg", b.view(columns, (5, 20), column, (60, 3)))

    places = [rng.integers(0, 9, (50, 5, 20), dtype=np.int32) for _ in range(3)]
    after = fold(folded([((5, 20), "int32")] * 3, write, *places))  # a view that does nothing goes at the next turn
    assert after.ops[-1].inputs == (after.inputs[column],)


def test_a_view_of_a_part_sees_the_part_and_one_of_several_parts_the_whole():
    parts = [rng.integers(0, 9, (50, 4, size, 3), dtype=np.int32) for size in (2, 5, 1)]
    shapes = [(part.shape[1:], "int32") for part in parts]

    def seen(start, *form):
        view = lambda b, *values: b.view(b.concat(values, 1), form[0], start, form[1])  # noqa: E731
        return count(folded(shapes, view, *parts))

    assert seen(3 * 6 + 2, (4, 3, 2), (24, -3, -1)) == {"view": 1}  # rows 6, 5, 4 of each 8 lie in the second part
    assert seen(3 * 3, (4, 5, 3), (24, 3, 1)) == {"concat": 1, "view": 1}
    assert seen(0, (4, 3), (24, 1)) == {"view": 1}


def test_views_of_views_are_one_view_where_one_map_describes_them():
    turned = folded([((4, 6), "int32")], lambda b, x: b.reverse(b.reshape(b.reverse(x, [1]), (4, 2, 3)), [2]),
                    rng.integers(0, 9, (50, 4, 6), dtype=np.int32))  # fmt: skip
    assert count(turned) == {"view": 1}
    crossed = folded([((4, 6), "int32")], lambda b, x: b.reshape(b.transpose(x, [1, 0]), (8, 3)),
                     rng.integers(0, 9, (50, 4, 6), dtype=np.int32))  # fmt: skip
    assert count(crossed) == {"view": 2}


def test_reading_at_constant_places_along_a_line_is_a_view():
    grid = np.arange(50 * 12, dtype=np.int32).reshape(50, 12)
    after = folded([((12,), "int32")], lambda b, x: b.take(x, number(b, [1, 4, 7])), grid)
    (op,) = (op for op in after.ops if op.name != "const")
    assert (op.name, op.attrs) == ("view", {"offset": 1, "strides": (3,)})
    assert count(folded([((12,), "int32")], lambda b, x: b.take(x, number(b, [1, 4, 8])), grid)) == {"take": 1}


def test_a_put_that_is_never_allowed_or_writes_everything_disappears():
    grid = np.arange(150, dtype=np.int32).reshape(50, 3)

    def write(mask, places):
        return lambda b, x: b.put(x, number(b, places), b.elementwise("add", x, x), b.full((3,), mask, "bool"), "set")

    assert not count(folded([((3,), "int32")], write(False, [0, 1, 2]), grid))
    assert count(folded([((3,), "int32")], write(True, [0, 1, 2]), grid)) == {"add": 1}
    assert count(folded([((3,), "int32")], write(True, [0, 2, 1]), grid)) == {"add": 1, "put": 1}


def test_a_branch_whose_condition_is_known_is_written_in_its_place():
    from small_programs import imported

    def function(x):
        return jax.lax.cond(jnp.bool_(True), lambda: x * 2, lambda: x * 3)

    block = imported(function, jnp.int32(1))
    after = eliminate_dead(fold(block))
    assert count(after) == {"mul": 1}
    assert_same_meaning(block, after, INTS)


def test_what_becomes_less_in_a_branch_that_is_written_in_its_place_is_found_by_its_loops():
    from small_programs import imported

    def branch(p, x):
        chosen = jnp.where(~p, x * 5, jnp.where(p, x * 3, x + 7))
        return jax.lax.fori_loop(0, 3, lambda i, y: y * 2 + chosen, x)

    def function(p, x):
        return jax.lax.cond(jnp.bool_(True), lambda: branch(p, x), lambda: x)

    block = imported(function, jnp.bool_(True), jnp.int32(1))
    assert_same_meaning(block, fold(block), FLAGS, INTS)


def test_a_view_of_a_view_of_nothing_stays():
    before = written([((0, 2), "float32")], lambda b, x: [b.transpose(b.reshape(x, (2, 0)), (1, 0))])
    assert_same_meaning(before, fold(before), np.zeros((5, 0, 2), np.float32))
