"""`drivetrain bench actors`: which runs are made, and what is said of them."""

import math

import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")

from drivetrain.bench.actors import command
from drivetrain.bench.sizing.trial import Rates
from drivetrain.core.errors import InvalidInput


def test_sleeping_environments_get_up_to_sixteen_actors_and_computing_ones_as_many_as_cores(monkeypatch):
    monkeypatch.setattr(command, "num_cores", lambda: 6)
    assert command.counts("sleeps", 16) == [1, 2, 4, 8, 16]
    assert command.counts("sleeps", 12) == [1, 2, 4, 8, 12]
    assert command.counts("computes", 16) == [1, 2, 4, 6]


def test_every_number_of_actors_runs_once_a_round_there_and_back(monkeypatch):
    asked = []
    monkeypatch.setattr(command, "rates", lambda drawn, *setting: asked.append(setting) or Rates(1.0, 1.0))
    found = command.measure("sleeps", [1, 2, 4], rounds=2, seconds=3.0)
    assert asked == [(count, 1, 3.0) for count in (1, 2, 4, 4, 2, 1)]
    assert {count: len(each) for count, each in found.items()} == {1: 2, 2: 2, 4: 2}


def test_linear_is_the_rate_of_one_actor_in_the_same_round_times_their_number():
    found = {1: [Rates(100.0, 25.0), Rates(200.0, 50.0)], 4: [Rates(300.0, 75.0), Rates(780.0, 195.0)]}
    one, four, one_learned, four_learned = (case.as_json() for case in command.cases_of("computes", found))
    assert (one["ours"], one["references"], one["targets"]) == (150.0, {"linear": 150.0}, [])
    assert (four["ours"], four["references"]) == (540.0, {"linear": 600.0})
    assert (four["targets"][0]["got"], four["targets"][0]["met"]) == (0.9, True)
    assert four["details"]["of linear, by round"] == [0.75, 0.975]
    assert (one_learned["ours"], four_learned["ours"]) == (64 * 37.5, 64 * 135.0)


@pytest.mark.parametrize(("flag", "value"), [("most", 17), ("rounds", 0), ("seconds", 0.0), ("seconds", math.nan)])
def test_what_cannot_be_measured_is_refused(flag, value):
    with pytest.raises(InvalidInput, match=f"--{flag}: expected"):
        command.Options(**{flag: value}).check()


def test_a_quick_run_takes_more_where_more_is_asked_for():
    assert command.Options().effort() == (16, 3, 5.0)
    assert command.Options(quick=True).effort() == (2, 1, 1.0)
    assert command.Options(quick=True, seconds=3.0, most=4).effort() == (4, 1, 3.0)


@pytest.mark.slow  # four whole runs
def test_a_quick_run_writes_its_report(tmp_path):
    assert command.run(command.Options(quick=True, json=tmp_path / "actors.json"), ["--quick"]) == 0
    assert (tmp_path / "actors.json").exists()
