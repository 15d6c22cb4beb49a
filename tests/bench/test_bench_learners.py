"""`drivetrain bench learners`: its numbers come from both forms, and a lost worker is an error."""

import json

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from drivetrain.bench.learners import command
from drivetrain.bench.learners.worker import Job
from drivetrain.core.errors import InvalidInput, RunError

SMALL = Job(algo="dqn", batch_size=8, width=8, num_learners=1, updates_per_call=2)


def test_a_worker_answers_with_a_time_for_each_call():
    with command.worker(SMALL) as process:
        times = command.ask(process)
    assert len(times) == command.CALLS_PER_ROUND
    assert min(times) > 0
    assert process.poll() is not None


def test_a_case_has_both_forms_and_the_target_against_one_learner(monkeypatch):
    asked = iter([[10.0], [4.0], [12.0], [6.0]])
    monkeypatch.setattr(command, "ask", lambda _process: next(asked))
    monkeypatch.setattr(command, "worker", lambda _job: command.contextlib.nullcontext())
    case = command.measure(SMALL, 1.5, rounds=2).as_json()
    assert (case["ours"], case["references"]) == (5.0, {"one learner": 11.0})
    assert case["minima"] == {"ours": 4.0, "one learner": 10.0}
    assert case["targets"] == [{"against": "one learner", "aim": 1.5, "form": "ahead", "got": 2.2, "met": True}]


def test_a_worker_that_ends_is_an_error_not_a_hang():
    with command.worker(SMALL) as process:
        process.kill()
        with pytest.raises(RunError, match="a worker ended with code -9"):
            command.answer(process)


def test_no_rounds_are_refused():
    with pytest.raises(InvalidInput, match="rounds: expected at least 1"):
        command.Options(rounds=0).check()


def test_a_job_travels_whole():
    assert Job(**json.loads(SMALL.as_json())) == SMALL
