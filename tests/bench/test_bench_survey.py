"""`drivetrain bench scope --survey`: outcomes of recorded programs, claims beside them, and the page."""

import dataclasses
import json
import random

import numpy as np
import pytest

from drivetrain.bench.report import Skipped
from drivetrain.bench.scope import command
from drivetrain.bench.scope.contenders import Program
from drivetrain.bench.scope.survey.claims import findings
from drivetrain.bench.scope.survey.loads import PONG, WALKER, Load, loads
from drivetrain.bench.scope.survey.outcome import Gpu, Outcome, outcome, run
from drivetrain.bench.scope.survey.page import as_page
from drivetrain.bench.scope.survey.survey import runs_in, survey, survey_report
from drivetrain.bench.scope.window import Window
from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.scope.profile import Profile
from drivetrain.scope.sites import MEMBER, UNRECORDED, Site
from drivetrain.scope.trace.events import BEGIN, BLOCK, END, SIMULATED, STEP, Process, Thread, Trace

SITES = (Site("Env.step", "simulation", "simulator"), MEMBER, UNRECORDED)

TEXT = """
import multiprocessing
import time
import gymnasium
from drivetrain import scope
from drivetrain.bench.scope.window import window

def steps(num_steps, seconds_of_inference):
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=1)
    for _ in range(num_steps):
        with scope.operation("inference"):
            sum(range(seconds_of_inference))
        if any(env.step(0)[2:4]):
            env.reset()

if __name__ == "__main__":
    with window():
        begin_s = time.process_time()
        steps(300, 100_000)  # what is settled has much less of it
        with open(__file__ + ".first_s", "w") as file:
            print(time.process_time() - begin_s, file=file)
        steps(300, 10)
    child = multiprocessing.get_context("spawn").Process(target=steps, args=(1, 1))
    child.start()
    child.join()
"""


def load_of(script, name="SB3 PPO Walker2d-v5", algo="PPO", env=WALKER, **about):
    framework = name.split()[0]
    return Load(program=Program(name=name, script=script), framework=framework, algo=algo, env=env, **about)


def outcome_of(simulation, us_per_step=100.0, waiting=0.0):
    return Outcome(
        operations={"simulation": simulation, "backpropagation": 1 - simulation},
        classes={"python": 1.0},
        waiting=waiting,
        us_per_step=us_per_step,
        transitions=3.0,
        num_steps=10,
        num_processes=1,
        overhead=float("nan"),
    )


def found(*rows):
    """Loads by name with one run each, of rows (name, algorithm, simulator, share, microseconds)."""
    return {
        name: (load_of("x.py", name, algo, env), [outcome_of(share, us)])
        for name, algo, env, share, us in rows
    }  # fmt: skip


@pytest.mark.release
def test_the_settled_half_of_a_program_is_what_its_shares_are_of(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(TEXT)
    out = run(load_of(script), calibrate_every=0)
    assert out.num_steps == 299, "of 600 in the window, from the end of the 301st on"
    first_s = float((tmp_path / "program.py.first_s").read_text())
    assert 0 < out.us_per_step * out.num_steps < first_s * 1e6, (
        "the first half is no part of it, however busy the machine"
    )
    assert sum(out.operations.values()) == pytest.approx(1)
    assert sum(out.classes.values()) == pytest.approx(1)
    assert out.num_processes >= 2, "the child recorded too"


def test_a_program_that_simulates_nothing_is_an_error(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("from drivetrain.bench.scope.window import window\nwith window():\n    pass\n")
    with pytest.raises(RunError, match="no step of a simulator"):
        run(load_of(script))


def test_the_ratio_of_on_and_off_policy_is_that_of_the_means_and_decides_the_claim():
    rows = found(
        ("SB3 A2C Walker2d-v5", "A2C", WALKER, 0.6, 1),
        ("SB3 PPO Walker2d-v5", "PPO", WALKER, 0.4, 1),
        ("SB3 SAC Walker2d-v5", "SAC", WALKER, 0.1, 1),
        ("SB3 DQN ALE/Pong-v5", "DQN", PONG, 0.3, 1),
    )
    claims = {finding.claim: finding for finding in findings(rows)}
    (ratio,) = [finding for claim, finding in claims.items() if claim.startswith("On-policy")]
    assert (ratio.ours, ratio.holds) == (pytest.approx(5.0), True)
    assert ratio.because == "the mean of A2C 60%, PPO 40% over that of SAC 10%"
    assert claims["A2C on Walker2D spends about 67% of its time in simulation"].holds is True
    assert claims["SAC on Walker2D spends about 14% of its time in simulation"].ours == pytest.approx(10)
    assert not any("DDPG on Walker2D" in claim for claim in claims), "it did not run"


def test_frameworks_are_compared_at_equal_algorithm_and_simulator_in_either_direction():
    rows = found(
        ("SB3 PPO Walker2d-v5", "PPO", WALKER, 0.5, 100),
        ("SBX PPO Walker2d-v5", "PPO", WALKER, 0.5, 400),
        ("SB3 SAC Walker2d-v5", "SAC", WALKER, 0.1, 300),
        ("SBX SAC Walker2d-v5", "SAC", WALKER, 0.1, 100),
    )
    (finding,) = [one for one in findings(rows) if one.claim.startswith("Equivalent")]
    assert (finding.ours, finding.holds) == (pytest.approx(4), True)
    assert finding.because.startswith("PPO Walker2d-v5, where SBX takes longer per step")


def test_self_play_is_by_as_many_workers_as_play_at_a_time():
    load = load_of("x.py", "self-play", "", "Connect Four", num_processes=3)
    run = dataclasses.replace(outcome_of(0.9, waiting=0.96), num_processes=8)  # of two generations, and their trackers
    (finding,) = [one for one in findings({"self-play": (load, [run])}) if one.claim.startswith("In self-play")]
    assert (finding.ours, finding.holds) == (pytest.approx(96), True)
    assert finding.because.startswith("of the learner's time it waited; 3 workers at a time")


def test_claims_about_gpus_are_judged_where_one_was_used_and_nowhere_else():
    def judged(outcomes):
        return [finding for finding in findings(outcomes) if "GPU" in finding.claim or "NVML" in finding.claim]

    rows = found(("SB3 PPO Walker2d-v5", "PPO", WALKER, 0.5, 100), ("self-play", "", "Connect Four", 0.9, 100))
    assert [(one.ours, one.holds) for one in judged(rows)] == [(None, None), (None, None)]
    busy = {
        name: (load, [dataclasses.replace(run, gpu=Gpu(busy=0.04, bound=0.01, inflation=12.0)) for run in runs])
        for name, (load, runs) in rows.items()
    }
    assert [(one.ours, one.holds) for one in judged(busy)] == [(4.0, True), (12.0, True)]


def test_a_gpus_share_is_that_of_the_program_on_which_it_works_longest():
    rows = found(
        ("SB3 PPO Walker2d-v5", "PPO", WALKER, 0.5, 100),
        ("SB3 PPO Walker2d-v5, 2 subprocesses", "PPO", WALKER, 0.5, 100),
    )
    shares = (0.2, 0.02)
    busy = {
        name: (load, [dataclasses.replace(run, gpu=Gpu(busy=share, bound=0.01, inflation=None)) for run in runs])
        for (name, (load, runs)), share in zip(rows.items(), shares, strict=True)
    }
    (finding,) = [one for one in findings(busy) if one.claim.startswith("The GPU is busy")]
    assert (finding.ours, finding.holds) == (pytest.approx(20), False)
    assert finding.because.endswith("SB3 PPO Walker2d-v5 20%, SB3 PPO Walker2d-v5, 2 subprocesses 2%")


def thread_of(number, events):
    """The main thread of process number `number`, of (time, kind, site, value)."""
    columns = list(zip(*events, strict=True))
    return Thread(
        process=number,
        number=0,
        tid=7 + number,
        name="",
        time_ns=np.array(columns[0], np.int64),
        kind=np.array(columns[1], np.uint8),
        site=np.array(columns[2], np.int32),
        value=np.array(columns[3], np.uint16),
    )


def outcome_on_paper(*threads):
    """Of a window of 1,000 ns of the first of these processes."""
    processes = tuple(Process(pid=7 + n, start=n, parent=1, argv=()) for n in range(len(threads)))
    trace = Trace(begin_ns=0, end_ns=1000, sites=SITES, processes=processes, threads=threads, about={})
    return outcome(Profile(trace), Window(pid=7, begin_ns=0, end_ns=1000, cpu_s=1.0))


def steps(first, last, every):
    """Of a simulator."""
    events = [[(t - 5, BEGIN, 0, 0), (t, END, 0, 0), (t, STEP, 0, SIMULATED)] for t in range(first, last, every)]
    return [event for step in events for event in step]


def test_steps_of_a_vector_environment_are_its_own_and_not_also_those_of_its_members():
    members = [thread_of(number, [(0, BEGIN, 1, 0), *steps(90 + number, 1000, 100)]) for number in (1, 2)]
    out = outcome_on_paper(thread_of(0, steps(100, 1001, 100)), *members)
    assert (out.num_steps, out.us_per_step) == (4, pytest.approx(0.1)), "of ten, from the end of the sixth on"


def test_steps_of_blocks_in_which_only_some_instruments_were_muted_are_counted_as_they_are():
    half, muted = steps(505, 750, 10), [(755, BLOCK, 3, 0), (1000, BLOCK, 0, 0)]
    for mask in (0, 1, 1 << 15):
        events = [*steps(5, 500, 10), (502, BLOCK, mask, 1), *half, *muted]
        out = outcome_on_paper(thread_of(0, sorted(events, key=lambda event: event[0])))
        assert out.num_steps == pytest.approx(625 / 10, abs=2), "one every 10 ns of the second half"


def test_a_survey_runs_every_load_once_per_round_and_names_what_failed_and_what_is_absent(tmp_path):
    asked = []
    good, bad = load_of("good.py", "SB3 A2C Walker2d-v5", "A2C"), load_of("bad.py", "SB3 SAC Walker2d-v5", "SAC")

    def runner(load):
        asked.append(load.name)
        if load is bad:
            raise RunError("it crashed")
        return outcome_of(0.5)

    surveyed = survey([good, bad], num_rounds=3, rng=random.Random(0), run=runner, kept=runs_in())
    assert asked.count(good.name) == 3
    assert asked.count(bad.name) == 1
    assert [len(runs) for _, runs in surveyed.outcomes.values()] == [3]
    assert [(one.name, one.reason) for one in surveyed.skipped] == [(bad.name, "it crashed")]
    report = survey_report(surveyed, ["scope", "--survey"], is_quick=False)
    document = json.loads(json.dumps(report.as_json(), allow_nan=False))
    page = as_page(document)
    assert page.index("## Weaknesses first") < page.index("## What it found")
    assert "| A2C on Walker2D spends about 67% of its time in simulation | 67% | 50% | does not hold |" in page
    assert "| SB3 A2C Walker2d-v5 | 50 | 50 |" in page
    assert "it crashed" in page


def test_every_load_of_the_survey_is_a_program_that_exists_and_has_a_name_of_its_own():
    every = loads()
    assert all(load.program.script.is_file() for load in every)
    assert len({load.name for load in every}) == len(every)
    assert {load.env for load in every} >= {"Pendulum-v1", "HalfCheetah-v5", "Walker2d-v5", "ALE/Pong-v5"}
    assert {load.algo for load in every} >= {"A2C", "PPO", "DQN", "DDPG", "TD3", "SAC"}
    names = {load.name for load in every}
    assert {name.replace("SB3", "SBX") for name in names if name.startswith("SB3") and " A2C " not in name} - names == {
        "SBX PPO Walker2d-v5, 2 subprocesses"
    }


def test_a_survey_that_was_stopped_goes_on_with_the_runs_that_it_kept(tmp_path):
    asked, loads_ = [], [load_of("a.py", "SB3 A2C Walker2d-v5", "A2C"), load_of("b.py", "SB3 SAC Walker2d-v5", "SAC")]
    gpu = Gpu(busy=0.04, bound=0.01, inflation=None)

    def stopped(load):
        asked.append(load.name)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return dataclasses.replace(outcome_of(len(asked) / 10), overhead=0.5, gpu=gpu)

    def refused(load):
        asked.append(load.name)
        raise RunError("it crashed")

    def surveyed(runner):
        kept = runs_in(tmp_path / "kept.jsonl", {"code": "of today"})
        return survey(loads_, num_rounds=2, rng=random.Random(0), run=runner, kept=kept)

    early = surveyed(stopped)
    assert [one.reason for one in early.skipped] == ["the run was interrupted"]
    for _ in range(2):  # what failed is kept as well
        late = surveyed(refused)
        assert len(asked) == 5
        assert late.outcomes == early.outcomes
        assert [one.reason for one in late.skipped] == ["it crashed", "it crashed"]
    other = survey(loads_, num_rounds=1, rng=random.Random(0), run=refused, kept=runs_in(tmp_path / "kept.jsonl", {}))
    assert other.outcomes == {}, "under other conditions nothing is taken over"


def test_a_survey_of_which_nothing_has_run_writes_nothing(tmp_path, monkeypatch):
    def crash(_load):
        raise RunError("it crashed")

    monkeypatch.setattr(command, "run_load", crash)
    monkeypatch.setattr(command.Options, "everything", lambda _self: [load_of(__file__).program])
    monkeypatch.setattr(command, "loads", lambda: [load_of(__file__)])
    report = tmp_path / "survey.json"
    report.write_text("the one before")
    with pytest.raises(RunError, match="no load has run; SB3 PPO Walker2d-v5: it crashed"):
        command.run(command.Options(survey=True, rounds=1, json=report), ["--survey"])
    assert report.read_text() == "the one before"


def test_where_none_of_the_programs_can_run_that_is_said_before_anything_is_written(monkeypatch):
    absent = Skipped(name="SB3", reason="it is not installed", remedy='pip install "drivetrain[bench]"')
    monkeypatch.setattr(Program, "missing", lambda _self: absent)
    with pytest.raises(InvalidInput, match=r"none of the 2 programs asked for can run here; it is not installed: pip"):
        command.Options(survey=True, quick=True).check()


def test_what_belongs_to_the_other_bench_is_refused():
    with pytest.raises(InvalidInput, match="--tools-on"):
        command.Options(survey=True, tools_on="SB3").check()
    with pytest.raises(InvalidInput, match="no program: SB3 A2C Pendulum-v1"):
        command.Options(survey=True, only="Tetris").check()
