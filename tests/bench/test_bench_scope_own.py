"""What recording costs by itself: alternating loops, and pairs of stretches of one run."""

from pathlib import Path

import pytest

from drivetrain.bench.process import Rival
from drivetrain.bench.scope import command, own
from drivetrain.bench.scope.contenders import Program
from drivetrain.core.errors import InvalidInput, RunError


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


def test_a_whole_run_pays_for_its_steps_and_once_for_its_report():
    case = own.whole_case(pairs=[(1.001, 1.0)] * 9, once_s=0.5, num_stretches=100)
    assert case.samples["ours"] == [pytest.approx(1.006)]
    assert case.references["once, share"] == [pytest.approx(0.005)]
    assert case.as_json()["targets"][0]["met"]


def test_what_fails_is_named_and_the_rest_is_measured(monkeypatch):
    def said(program, *_arguments):
        if program == "empty_spans":
            raise RunError("it crashed")
        return {"pairs": [[1.0, 1.0]] * 3, "once_s": 0.1, "num_stretches": 100}

    monkeypatch.setattr(own, "_said", said)
    monkeypatch.setattr(own, "OURS_TRAIN", Rival(name="ours", module="", requires=(), install=""))
    cases, (skipped,) = own.measure_own(own.NAMES, is_quick=True)
    assert [case.name for case in cases] == [own.TRAINER, own.WHOLE]
    assert (skipped.name, skipped.reason) == (own.SPAN, "it crashed")


def test_an_interruption_is_named_and_what_was_measured_stays(monkeypatch):
    def said(program, *_arguments):
        if program == "trainer_switched":
            raise KeyboardInterrupt
        return {"span": [2.0], "nothing": [1.0]}

    monkeypatch.setattr(own, "_said", said)
    monkeypatch.setattr(own, "OURS_TRAIN", Rival(name="ours", module="", requires=(), install=""))
    (case,), (skipped,) = own.measure_own(own.NAMES, is_quick=True)
    assert case.name == own.SPAN
    assert skipped.reason == "the run was interrupted"


def test_programs_that_are_interrupted_are_the_end_of_the_bench(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(own, "_said", lambda *_: pytest.fail("went on"))
    monkeypatch.setattr(command, "PROGRAMS", (Program(name="trivial", script=Path(__file__)),))
    report = command.make_report(command.Options(tools=False), ["scope"], interrupted)
    assert [skipped.reason for skipped in report.skipped] == ["the run was interrupted"]


def test_what_is_asked_for_is_chosen_by_name():
    assert command.Options().own() == list(own.NAMES)
    assert command.Options(only="a span alone").own() == ["a span alone"]
    command.Options(only="trainer's record").check()
    assert command.Options(only="a span alone").programs() == []
    with pytest.raises(InvalidInput, match="a span alone"):
        command.Options(only="nothing of this name").check()


@pytest.mark.whole
def test_a_span_and_an_empty_context_manager_are_timed_in_turn():
    (case,), skipped = own.measure_own(["a span alone"], is_quick=True)
    assert not skipped
    assert case.references["ns"][0] > 0
    assert case.details["rounds"] == 1_000


@pytest.mark.slow  # trains for thousands of steps
def test_the_trainer_goes_on_while_its_record_is_switched():
    pytest.importorskip("jax")
    (case, whole), skipped = own.measure_own([own.TRAINER], is_quick=True)
    assert not skipped
    assert len(case.details["pairs"]) == own.NUM_QUICK_PAIRS
    assert all(recorded > 0 and alone > 0 for recorded, alone in case.details["pairs"])
    assert 0 < whole.references["once, s"][0] < 1
