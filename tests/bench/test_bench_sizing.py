"""`drivetrain bench sizing`: drawn cases, every setting once, and the choice against the best of them."""

import itertools
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")

from drivetrain.bench.sizing import command, trial
from drivetrain.bench.sizing.environment import VARIABLE, timed
from drivetrain.bench.sizing.trial import Rates
from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.core.machine import num_cores


def test_a_seed_draws_the_same_environments_and_both_kinds_of_them():
    drawn = command.draw(3, 4)
    assert drawn == command.draw(3, 4) != command.draw(4, 4)
    assert [each.kind for each in drawn] == ["computes", "sleeps", "computes", "sleeps"]
    assert all(0.05e-3 <= each.step_s <= 5e-3 for each in drawn)


def test_a_case_compares_the_choice_with_the_best_of_all_settings(monkeypatch):
    drawn = command.Drawn(kind="computes", step_s=1e-3, width=256, batch_size=256)
    rates = {(0, 1): 10.0, (0, 2): 12.0, (1, 1): 20.0, (1, 2): 40.0, (2, 1): 30.0, (2, 2): 25.0}
    asked = []
    monkeypatch.setattr(command, "num_cores", lambda: 2)
    monkeypatch.setattr(command, "chosen", lambda _: {"sized": "because", "num_actors": 2, "num_learners": 1})
    monkeypatch.setattr(command, "rates", lambda _, *setting: asked.append(setting) or Rates(rates[setting[:2]], 0.0))
    case = command.measure(drawn, rounds=2, seconds=1.0).as_json()
    assert sorted(asked) == sorted([(*setting, 1.0) for setting in [*rates, (2, 1)]] * 2)
    assert (case["ours"], case["references"]) == (30.0, {"best setting": 40.0, "ours again": 30.0})
    assert (case["targets"][0]["got"], case["targets"][0]["met"]) == (0.75, False)


def test_sleeping_steps_are_tried_with_more_actors_than_cores():
    drawn = command.Drawn(kind="sleeps", step_s=1e-3, width=64, batch_size=64)
    assert command.settings(drawn, 2) == [(count, 1) for count in (0, 1, 2, 4, 8, 16)]


@pytest.mark.parametrize("kind", ["computes", "sleeps"])
def test_the_environment_takes_the_steps_that_it_is_told_to(kind, monkeypatch):
    monkeypatch.setenv(VARIABLE, f"{kind} 0.0001")
    env = timed()
    env.reset(seed=1)
    ends = [env.step(0)[3] for _ in range(200)]
    assert ends == [False] * 199 + [True]


def test_no_cases_are_refused():
    with pytest.raises(InvalidInput, match="--cases: expected at least 1, got 0"):
        command.Options(cases=0).check()


def test_a_quick_run_takes_more_where_more_is_asked_for():
    assert command.Options().effort() == (4, 2, 4.0)
    assert command.Options(quick=True).effort() == (1, 1, 1.0)
    assert command.Options(quick=True, cases=2, seconds=0.5).effort() == (2, 1, 0.5)


@pytest.mark.slow  # minutes: every setting as a real run, twice
@pytest.mark.timeout(1200)
@pytest.mark.skipif(num_cores() < 2, reason="there is nothing to choose on one core")
@pytest.mark.parametrize("kind", ["computes", "sleeps"])
def test_the_chosen_setting_reaches_nine_tenths_of_the_best_of_real_runs(kind):
    """Step times are drawn anew each time; a failure says by which seed.

    Each setting counts by the better of two rounds in opposite order, so one disturbance does not decide. What was
    chosen runs twice per round; no test tells two settings apart better than a setting from itself, so 0.9 is
    lowered by the ratio of these two.
    """
    if kind == "computes" and os.getloadavg()[0] > 0.5:
        pytest.skip("others compute here, and which setting gets more of the cores is up to them")
    seed = int(os.environ.get("DRIVETRAIN_TEST_SEED", random.SystemRandom().randrange(10**6)))
    drawn = command.draw(seed, 4)[["computes", "sleeps"].index(kind) + 2 * (seed % 2)]
    case = command.measure(drawn, rounds=2, seconds=2.0).as_json()
    again = case["references"]["ours again"]
    noise = min(case["ours"], again) / max(case["ours"], again)
    assert case["targets"][0]["got"] >= 0.9 * noise, (f"DRIVETRAIN_TEST_SEED={seed}", case["notes"], case["details"])


def test_a_run_is_measured_for_as_long_as_asked_however_long_that_is(tmp_path, monkeypatch):
    """Its clock is a second ahead at each look, and its process takes a row for each."""
    path = tmp_path / "metrics.jsonl"
    looks = itertools.count()

    def look(_):
        rows = [{"wall_s": float(i), "steps_per_s": 1.0, "num_updates": 64} for i in range(next(looks) - 100)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    clock = itertools.count()
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=look))
    running = SimpleNamespace(poll=lambda: None)
    assert len(trial._rows_until(running, path, 300.0)) == 302


def test_a_run_that_ends_before_its_time_is_an_error_and_no_rate(monkeypatch):
    rows = [{"wall_s": wall_s, "num_steps": 10, "num_updates": 64} for wall_s in (1.0, 2.5)]
    monkeypatch.setattr(trial, "_rows_until", lambda *_: rows)
    drawn = command.Drawn(kind="sleeps", step_s=1e-3, width=8, batch_size=8)
    monkeypatch.setattr(type(drawn), "command", lambda *_: [sys.executable, "-c", "print('all steps are done')"])
    with pytest.raises(RunError, match=r"1 actors: 1\.5 of 4 s were measured"):
        trial.rates(drawn, 1, 1, 4.0)
    assert trial.rates(drawn, 1, 1, 1.5) == (0.0, 0.0)


BENCH = """
from drivetrain.bench.sizing.trial import Drawn, rates
rates(Drawn(kind="sleeps", step_s=1e-3, width=8, batch_size=8), 1, 1, 1000.0)
"""


def test_a_run_goes_away_with_a_bench_that_is_killed(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    bench = subprocess.Popen([sys.executable, "-P", "-c", BENCH], env=environment)
    try:
        wait_until(lambda: any(tmp_path.glob("*/run/config.json")))
        runs = [entry for entry in Path("/proc").glob("[0-9]*") if is_of(entry, tmp_path)]
        assert runs
    finally:
        bench.kill()
        bench.wait()
    wait_until(lambda: not any(is_of(entry, tmp_path) for entry in runs))


def is_of(process, folder):
    """Whether a process works in a folder, by its command line."""
    try:
        return str(folder).encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


def wait_until(happened):
    deadline_s = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
