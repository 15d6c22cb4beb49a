"""Schedules: values by formula, ends exact, nonsense refused."""

import dataclasses
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from filled import filled_replay

from drivetrain.core.errors import InvalidInput
from drivetrain.replay.schedules import Constant, Exponential, Linear


def test_a_constant_never_changes():
    assert [Constant(0.4)(step) for step in (0, 1, 10**12)] == [0.4] * 3


def test_a_line_passes_its_middle_and_stays_at_its_end():
    beta = Linear(0.4, 1.0, num_steps=10)
    assert [beta(step) for step in (0, 5, 10, 11, 10**18)] == [0.4, 0.7, 1.0, 1.0, 1.0]


def test_an_exponential_has_the_same_factor_at_every_step():
    values = [Exponential(1.0, 0.01, num_steps=4)(step) for step in range(7)]
    np.testing.assert_allclose(values, [1, 10**-0.5, 0.1, 10**-1.5, 0.01, 0.01, 0.01])
    assert values[4] == 0.01


@pytest.mark.parametrize("schedule", [Constant(1), Linear(1, 0, 7), Exponential(1, 2, 7), Linear(0, 1, np.int64(7))])
def test_a_schedule_gives_floats_can_be_pickled_and_cannot_be_changed(schedule):
    assert all(type(schedule(step)) is float for step in (0, 3, np.int32(5), 7))
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    with pytest.raises(dataclasses.FrozenInstanceError):
        schedule.num_steps = 3


@pytest.mark.parametrize("number", [Decimal("0.5"), Fraction(1, 2), np.float16(0.5), np.array(0.5)])
@pytest.mark.parametrize("kind", [Linear, Exponential])
def test_ends_may_be_any_real_numbers(kind, number):
    up, down = kind(number, 1, 4), kind(1, number, 4)
    assert [up(0), up(4), down(0), down(4)] == [0.5, 1.0, 1.0, 0.5]
    assert up(2) == pytest.approx(down(2), rel=1e-12)
    assert isinstance(up(2), float)


def test_every_value_of_a_line_within_0_and_1_is_a_beta():
    replay = filled_replay(4)
    beta = Linear(0.1, 1.0, 30)
    for step in range(40):
        assert replay.sample(2, beta=beta(step)).weights.max() == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(np.nan), "value: expected a finite number, got nan"),
        (lambda: Constant("1"), "value"),
        (lambda: Linear(0, np.inf, 3), "end: expected a finite number"),
        (lambda: Linear(0, 1, 0), "num_steps: expected an integer >= 1, got 0"),
        (lambda: Linear(0, 1, 2.5), "num_steps"),
        (lambda: Exponential(0, 1, 3), "expected start and end > 0, got 0 and 1; use Linear"),
        (lambda: Exponential(1, -1, 3), "expected start and end > 0"),
        (lambda: Linear(0, 1, 3)(-1), "step: expected a number >= 0, got -1"),
        (lambda: Constant(1)(float("nan")), "step"),
        (lambda: Linear(0, 10**400, 3), "end: expected a finite number"),
        (lambda: Linear(None, 1, 3), "start: expected a finite number, got None"),
        (lambda: Linear(0, np.ones(2), 3), "end: expected a finite number"),
        (lambda: Linear(0, 1, 3)("2"), "step: expected a number >= 0, got '2'"),
    ],
)
def test_what_makes_no_schedule_is_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize(("start", "end"), [(1e-200, 1e200), (1e300, 1e-300), (1e-300, 1e300)])
def test_an_exponential_between_numbers_whose_quotient_is_none_passes_their_geometric_mean(start, end):
    schedule = Exponential(start, end, 10)
    assert schedule(5) == pytest.approx(1.0)
    assert (schedule(0), schedule(10)) == (pytest.approx(start), end)
