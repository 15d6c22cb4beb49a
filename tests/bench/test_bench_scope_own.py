"""What recording costs by itself: alternating loops, and pairs of stretches of one run."""

import pytest

from drivetrain.bench.scope import command, own
from drivetrain.core.errors import InvalidInput


def test_the_fastest_loops_are_compared():
    case = own.span_case({"span": [300.0, 150.0, 160.0], "nothing": [400.0, 100.0]})
    assert case.samples["ours"] == [1.5]
    assert case.references["limit"] == [2.0]


def test_the_interval_of_the_median_ratio_holds_what_was_planted_and_shrinks_with_pairs():
    pairs = [(1.01 + 0.02 * ((7 * i) % 11 - 5), 1.0) for i in range(110)]
    case = own.trainer_case(pairs)
    assert case.samples["ours"] == [pytest.approx(1.01)]
    assert case.references["low"][0] <= 1.01 <= case.references["high"][0]
    few = own.interval([recorded for recorded, _ in pairs[:11]])
    many = own.interval([recorded for recorded, _ in pairs])
    assert few[1] - few[0] > many[1] - many[0]


def test_what_is_asked_for_is_chosen_by_name():
    assert command.Options().own() == list(own.NAMES)
    assert command.Options(only="a span alone").own() == ["a span alone"]
    command.Options(only="trainer's record").check()
    assert command.Options(only="a span alone").programs() == []
    with pytest.raises(InvalidInput, match="a span alone"):
        command.Options(only="nothing of this name").check()


def test_a_span_and_an_empty_context_manager_are_timed_in_turn():
    (case,), skipped = own.measure_own(["a span alone"], is_quick=True)
    assert not skipped
    assert case.references["ns"][0] > 0
    assert case.details["rounds"] == 1_000


@pytest.mark.slow  # trains for thousands of steps
def test_the_trainer_goes_on_while_its_record_is_switched():
    pytest.importorskip("jax")
    (case,), skipped = own.measure_own([own.TRAINER], is_quick=True)
    assert not skipped
    assert len(case.details["pairs"]) == own.NUM_QUICK_PAIRS
    assert all(recorded > 0 and alone > 0 for recorded, alone in case.details["pairs"])
