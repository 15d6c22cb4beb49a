"""`drivetrain bench learners`: its numbers come from both forms, and a lost worker is an error."""

import contextlib
import os
from dataclasses import replace

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from drivetrain.bench.learners import command, worker
from drivetrain.bench.learners.worker import Job
from drivetrain.core.errors import InvalidInput, RunError

SMALL = Job(algo="dqn", batch_size=8, width=8, num_learners=1, updates_per_call=2)


@pytest.mark.release
def test_a_worker_answers_with_a_time_for_each_call():
    with command.opened(SMALL) as opened:
        (times,) = command.ask([opened])
    assert len(times) == command.CALLS_PER_ROUND
    assert min(times) > 0
    assert opened.process.poll() is not None


class Asked:
    """Stands in for the workers: what each job answers, round by round, and who was asked at once."""

    def __init__(self, monkeypatch, answers):
        self.answers, self.together = {job: iter(times) for job, times in answers.items()}, []
        monkeypatch.setattr(command, "ask", self.ask)
        monkeypatch.setattr(command, "opened", contextlib.nullcontext)

    def ask(self, jobs):
        self.together.append(jobs)
        return [next(self.answers[job]) for job in jobs]


def a_round(*counted):
    """Calls after those that do not count, of which the first is slowest."""
    return [99.0, *[50.0] * (command.LEAD_IN - 1), *counted]


def test_a_case_has_both_forms_and_the_target_against_one_learner(monkeypatch):
    half = replace(SMALL, precision="bfloat16")
    Asked(monkeypatch, {SMALL: [a_round(10.0), a_round(12.0)], half: [a_round(4.0), a_round(6.0)]})
    case = command.measure(half, 1.5, rounds=2).as_json()
    assert (case["ours"], case["references"]) == (5.0, {"one learner": 11.0})
    assert case["minima"] == {"ours": 4.0, "one learner": 10.0}
    assert case["targets"] == [{"against": "one learner", "aim": 1.5, "form": "ahead", "got": 2.2, "met": True}]
    assert case["notes"] == ["the first call after a pause: one learner 99 us, ours 99 us"]


def test_beside_two_learners_stand_two_that_never_meet_with_half_of_the_batch_each(monkeypatch):
    two, half = replace(SMALL, num_learners=2), replace(SMALL, batch_size=4)
    asked = Asked(
        monkeypatch,
        {SMALL: [a_round(10.0)], two: [a_round(6.0)], half: [a_round(5.0, 1.0, 5.0), a_round(4.0, 4.0, 9.0)]},
    )
    case = command.measure(two, None, rounds=1).as_json()
    assert asked.together == [[SMALL], [two], [half, half]]
    assert case["references"] == {"one learner": 10.0, command.APART: 5.0}
    assert case["minima"] == {"ours": 6.0, "one learner": 10.0, command.APART: 1.0}


@pytest.mark.release
def test_a_worker_that_ends_is_an_error_not_a_hang():
    with command.opened(SMALL) as opened:
        opened.process.kill()
        with pytest.raises(RunError, match="a learner's process ended with code -9"):
            command.ask([opened])


def test_no_rounds_are_refused():
    with pytest.raises(InvalidInput, match="--rounds: expected at least 1"):
        command.Options(rounds=0).check()
    assert [command.Options(quick=q, rounds=r).num_rounds() for q, r in ((False, None), (True, None), (True, 5))] == [
        12,
        2,
        5,
    ]


def test_a_call_has_as_many_devices_as_learners(monkeypatch):
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(worker, "prepare_computation", lambda: None)
    monkeypatch.setattr(worker, "make_call", lambda job: lambda: seen.append(os.environ["PJRT_NPROC"]))
    seen = []
    assert worker.timed(replace(SMALL, num_learners=2))() > 0
    assert seen == ["2"]
