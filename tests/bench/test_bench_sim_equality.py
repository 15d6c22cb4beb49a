"""`drivetrain bench sim` counts what differs from XLA, number by number."""

import numpy as np
import pytest

from drivetrain.bench.sim.cases import equality_case
from drivetrain.bench.sim.equality import Tally, compare, differs, same_environments
from drivetrain.bench.sim.plan import Comparison


def test_differences_are_counted_exactly_for_integers_and_within_bounds_for_floats():
    x = np.array([1.0, np.nan, 100.0], np.float32)
    assert differs(x, x * np.float32(1 + 5e-6)).tolist() == [False] * 3
    assert differs(x, x * np.float32(1 + 5e-5)).tolist() == [True, False, True]
    assert differs(np.array([1, 2]), np.array([1, 3])).tolist() == [False, True]
    assert differs(np.zeros(2, np.int32), np.zeros(2, np.int8)).tolist() == [True, True]
    tally = Tally()
    tally.add((x, np.array([1, 2])), (x, np.array([1, 3])))
    assert (tally.num_wrong, tally.num_compared, tally.largest_error) == (1, 5, 0.0)


def test_environments_that_left_each_other_are_told_apart():
    x = np.zeros((3, 4, 2), np.int32)
    y = x.copy()
    y[2, 1, 0] = 1
    assert same_environments({"a": x}, {"a": y}).tolist() == [True, False, True, True]


@pytest.mark.slow  # draws every kind of number, which takes long to compile and to interpret
@pytest.mark.parametrize(("engine", "generator"), [("native", "threefry"), ("numpy", "philox")])
def test_random_words_of_both_generators_are_those_of_xla(engine, generator):
    found = compare(f"random words, {generator}", engine, 9, 20)
    assert (found.num_wrong, found.share_equal, found.num_ended) == (0, 1.0, 9)
    assert found.num_compared > 9 * 20 * 36


def test_a_comparison_states_how_much_it_compared():
    found = {"num_wrong": 0, "num_compared": 7, "largest_error": 0.0, "num_ended": 1, "share_equal": 1.0}
    case = equality_case(Comparison(env="CartPole-v1", engine="numpy"), found).as_json()
    assert (case["ours"], case["references"]["compared"]) == (0, 7)
