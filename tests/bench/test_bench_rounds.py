"""Interleaved rounds: everybody once per seed, the same work from all, failures named."""

from dataclasses import replace

import pytest

from drivetrain.bench.process import Rival
from drivetrain.bench.train.contenders import probe_threads
from drivetrain.bench.train.job import Job, Outcome
from drivetrain.bench.train.rounds import Contender, measure
from drivetrain.bench.train.settings import DqnSettings
from drivetrain.core.errors import RunError

JOB = Job(kind="fixed", env="CartPole-v1", seed=0, total_steps=2_000, settings=DqnSettings())
DONE = Outcome(cpu_s=1.0, wall_s=1.0, import_cpu_s=0.1, num_steps=2_048, num_updates=640)


def rival(name):
    return Rival(name=name, module="none", requires=(), install="")


def contenders(*names):
    return [Contender(label=name, rival=rival(name), job=JOB) for name in names]


def test_everybody_runs_every_seed_and_the_order_turns():
    ran = []

    def run(rival, job):
        ran.append((rival.name, job.seed))
        return DONE

    results, failed = measure(contenders("ours", "SB3", "SBX"), [1, 2], run)
    assert ran == [("ours", 1), ("SB3", 1), ("SBX", 1), ("SB3", 2), ("SBX", 2), ("ours", 2)]
    assert {name: len(outcomes) for name, outcomes in results.items()} == {"ours": 2, "SB3": 2, "SBX": 2}
    assert not failed


def test_a_peer_that_fails_is_left_out_with_its_reason():
    def run(rival, job):
        if rival.name == "SB3" and job.seed == 2:
            raise RunError("SB3 ended with code 1: boom")
        return DONE

    results, failed = measure(contenders("ours", "SB3"), [1, 2, 3], run)
    assert failed == {"SB3": "failed: SB3 ended with code 1: boom"}
    assert results["SB3"] == []
    assert len(results["ours"]) == 3


def test_our_own_failure_is_an_error():
    def run(rival, job):
        raise RunError("ours ended with code 1: boom")

    with pytest.raises(RunError, match="boom"):
        measure(contenders("ours"), [1], run)


@pytest.mark.parametrize("name", ["ours", "SB3"])
def test_whoever_does_other_work_stops_the_measurement(name):
    def run(rival, job):
        return replace(DONE, num_updates=639) if rival.name == name else DONE

    with pytest.raises(RunError, match=rf"{name}: expected \(2048, 640\)"):
        measure(contenders("ours", "SB3"), [1], run)


def test_the_settings_count_steps_and_updates_as_sb3_does():
    settings = DqnSettings()
    assert settings.num_steps(50_000) == 196 * 256
    assert settings.num_updates(50_000) == 193 * 128  # the first three blocks are before the start
    assert settings.num_steps(256) == 256
    assert settings.num_updates(256) == 0


def test_a_peer_runs_with_the_number_of_threads_that_costs_it_less():
    def run(rival, job):
        faster = {"SB3": 1, "SBX": None}[rival.name]
        return replace(DONE, cpu_s=1.0 if job.threads == faster else 2.0)

    chosen, measured, failed = probe_threads([rival("SB3"), rival("SBX")], JOB, run, lambda done: done.cpu_s)
    assert chosen == {"SB3": 1, "SBX": None}
    assert not failed
    assert measured["SB3"]["framework's choice"]["cpu_s"] == 2.0
