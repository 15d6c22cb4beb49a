"""`drivetrain bench learning` as a whole, with sides that answer at once: runs are kept, and not run again."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from drivetrain.bench.learning import command
from drivetrain.bench.learning.cases import CASES
from drivetrain.bench.learning.command import seeds_of
from drivetrain.bench.learning.contests import CONTESTS, SIMULATORS, case_named
from drivetrain.bench.learning.records import counting, load
from drivetrain.bench.learning.run import Learned
from drivetrain.bench.process import Rival
from drivetrain.cli import bench
from drivetrain.core.errors import FileFormatError, InvalidInput, RunError

CARTPOLE = case_named("dqn CartPole-v1")


def learned(case, mean=100.0):
    num_steps, num_updates = case.work
    curve = [(case.total_steps // 2, mean / 2), (case.total_steps, mean)]
    return Learned(num_steps=num_steps, num_updates=num_updates, returns=[mean] * 4, curve=curve)


@pytest.fixture
def ran(monkeypatch):
    """Everybody is installed and answers at once; what they were asked, in order."""
    asked = []

    def answer(side, case, seed):
        asked.append((case.name, side.name, seed))
        return learned(case, 100.0 + seed)

    monkeypatch.setattr(command, "run_side", answer)
    monkeypatch.setattr(Rival, "missing", lambda self: None)
    return asked


def words(tmp_path, *more):
    return ["learning", "--json", str(tmp_path / "learning.json"), "--cases", "dqn CartPole", *more]


def test_every_case_seed_and_side_is_run_once_and_kept(ran, tmp_path):
    assert bench.run(words(tmp_path, "--seeds", "1..2")) == 0
    name = "dqn CartPole-v1"
    sides = ("ours", "ours-processes", "sb3", "sb3-eight")
    assert ran == [(name, side, seed) for seed in (1, 2) for side in sides]
    runs = load(tmp_path / "learning.json")
    assert [(run["case"], run["side"], run["seed"]) for run in runs] == [
        (name, side, seed) for side in sides for seed in (1, 2)
    ]
    assert runs[0]["returns"] == [101.0] * 4
    assert runs[0]["command"].startswith("drivetrain bench learning --json")
    assert {"commit", "versions", "machine", "num_steps", "num_updates", "settings"} <= set(runs[0])


def test_the_peer_with_eight_environments_is_left_out_where_a_block_of_steps_is_not_shared_evenly(ran, tmp_path):
    path = tmp_path / "learning.json"
    assert bench.run(["learning", "--json", str(path), "--cases", "dqn LunarLander", "--seeds", "1..1"]) == 0
    assert [side for _, side, _ in ran] == ["ours", "ours-processes", "sb3"]


def test_simulators_are_run_fused_with_and_without_processes_and_through_gymnasium(ran, tmp_path):
    more = ["--against", "gymnasium", "--json", str(tmp_path / "fused.json"), "--cases", "dqn drivetrain/CartPole"]
    assert bench.run(["learning", *more, "--seeds", "1"]) == 0
    sides = ["fused", "fused-processes", "gymnasium"]
    assert ran == [("dqn drivetrain/CartPole-v1", side, 1) for side in sides]
    assert [run["side"] for run in load(tmp_path / "fused.json")] == sides
    assert [side.sim_engine for side in SIMULATORS.sides] == ["auto", "auto", "none"]


def test_a_second_command_does_what_is_missing(ran, tmp_path):
    bench.run(words(tmp_path, "--seeds", "1..2", "--sides", "ours"))
    ran.clear()
    bench.run(words(tmp_path, "--seeds", "1..3", "--sides", "ours", "sb3"))
    missing = [("sb3", 1), ("sb3", 2), ("ours", 3), ("sb3", 3)]
    assert [(side, seed) for _, side, seed in ran] == missing
    ran.clear()
    bench.run(words(tmp_path, "--seeds", "1..3", "--sides", "ours", "sb3"))
    assert ran == []


def test_a_case_runs_as_many_seeds_as_its_verdict_takes(ran, tmp_path):
    bench.run(["learning", "--json", str(tmp_path / "learning.json"), "--sides", "sb3"])
    assert [ran.count((case.name, "sb3", seed)) for case in CASES for seed in (1, 2, 3)] == [1] * 3 * len(CASES)
    assert len(ran) == sum(case.num_seeds for case in CASES)


def test_a_run_at_other_settings_or_steps_does_not_count(ran, tmp_path):
    bench.run(words(tmp_path, "--seeds", "1"))
    path = tmp_path / "learning.json"
    document = json.loads(path.read_text())
    document["runs"][0]["settings"]["gamma"] = 0.5
    document["runs"][1]["total_steps"] = 7
    path.write_text(json.dumps(document))
    ran.clear()
    bench.run(words(tmp_path, "--seeds", "1"))
    assert [side for _, side, _ in ran] == ["ours", "ours-processes"]
    assert len(load(path)) == 6
    assert len(counting(load(path), CARTPOLE, "ours")) == 1


def test_a_run_from_before_a_setting_was_added_counts_while_the_setting_is_at_its_default(ran, tmp_path):
    bench.run(words(tmp_path, "--seeds", "1", "--sides", "ours"))
    (run,) = load(tmp_path / "learning.json")
    del run["settings"]["gamma"]  # which this case has at its default
    assert counting([run], CARTPOLE, "ours") == [run]
    other = replace(CARTPOLE, settings=replace(CARTPOLE.settings, gamma=0.5))
    assert counting([run], other, "ours") == []
    run["settings"]["of_old"] = 3  # and what is no setting any more was something else
    assert counting([run], CARTPOLE, "ours") == []


@pytest.mark.parametrize("contest", CONTESTS.values(), ids=lambda contest: contest.name)
def test_no_run_that_was_kept_has_been_silenced_by_a_change_of_settings(contest):
    page = {"sb3": "learning", "gymnasium": "learning-fused"}[contest.name]
    runs = load(Path(__file__).parents[2] / "docs" / "benchmarks" / f"{page}.json")
    count = sum(len(counting(runs, case, side.name)) for case in contest.cases for side in contest.sides)
    assert count == len(runs) > 0


def test_a_failing_run_is_named_and_the_others_go_on(ran, monkeypatch, tmp_path, capsys):
    def answer(side, case, seed):
        if side.name == "sb3":
            raise RunError("sb3 ended with code 1: boom")
        return learned(case)

    monkeypatch.setattr(command, "run_side", answer)
    assert bench.run(words(tmp_path, "--seeds", "1..2")) == 1
    assert capsys.readouterr().out.count("failed: sb3 ended with code 1: boom") == 2
    assert len(load(tmp_path / "learning.json")) == 6


def test_a_run_whose_policy_diverged_is_a_failed_one_and_the_others_go_on(ran, monkeypatch, tmp_path, capsys):
    means = {"ours": math.nan, "sb3": math.inf}
    monkeypatch.setattr(command, "run_side", lambda side, case, seed: learned(case, means.get(side.name, 100.0)))
    assert bench.run(words(tmp_path, "--seeds", "1")) == 1
    assert "failed: sb3: expected finite returns, got inf: its policy has diverged" in capsys.readouterr().out
    assert {run["side"] for run in load(tmp_path / "learning.json")} == {"ours-processes", "sb3-eight"}


def test_who_is_not_installed_is_announced_and_left_out(ran, monkeypatch, tmp_path, capsys):
    monkeypatch.undo()
    monkeypatch.setattr(command, "run_side", lambda side, case, seed: learned(case))
    monkeypatch.setattr(Rival, "missing", lambda self: None if self.name == "ours" else absent(self))
    assert bench.run(words(tmp_path, "--seeds", "1")) == 0
    assert "skipped: SB3, not installed: torch" in capsys.readouterr().out
    assert {run["side"] for run in load(tmp_path / "learning.json")} == {"ours", "ours-processes"}


def absent(rival):
    from drivetrain.bench.report import Skipped

    return Skipped(name=rival.name, reason="not installed: torch", remedy=rival.install)


def test_a_quick_run_is_short_and_keeps_nothing(ran, monkeypatch, tmp_path):
    steps = []
    monkeypatch.setattr(command, "run_side", lambda side, case, seed: steps.append(case.total_steps) or learned(case))
    assert bench.run(["learning", "--quick", "--json", str(tmp_path / "learning.json")]) == 0
    assert len(steps) == 3 * len(CASES) + 1, "with eight environments the peer runs on CartPole alone"
    assert max(steps) < 11_000
    assert not (tmp_path / "learning.json").exists()


def test_a_quick_run_takes_the_seeds_that_are_asked_for(ran, tmp_path):
    assert bench.run(words(tmp_path, "--quick", "--sides", "sb3", "--seeds", "3..4")) == 0
    assert [seed for *_, seed in ran] == [3, 4]


@pytest.mark.release
def test_a_killed_command_loses_the_run_in_progress_and_no_other(tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(
        "import time\n"
        "from drivetrain.bench.learning import command\n"
        "from drivetrain.bench.learning.run import Learned\n"
        "from drivetrain.bench.process import Rival\n"
        "from drivetrain.cli import bench\n"
        "def answer(side, case, seed):\n"
        "    time.sleep(600 if seed == 3 else 0)\n"
        "    steps, updates = case.work\n"
        "    return Learned(num_steps=steps, num_updates=updates, returns=[1.0], curve=[(steps, 1.0)])\n"
        "command.run_side = answer\n"
        "Rival.missing = lambda self: None\n"
        f"bench.run({words(tmp_path, '--seeds', '1..3', '--sides', 'sb3')!r})\n"
    )
    path = tmp_path / "learning.json"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, str(script)], env=environment) as process:
        while not (path.exists() and len(load(path)) == 2):  # the test's own time-out ends a wait for ever
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert [run["seed"] for run in load(path)] == [1, 2]


@pytest.mark.parametrize(("text", "seeds"), [("1..5", [1, 2, 3, 4, 5]), ("7", [7]), ("0..0", [0])])
def test_seeds_are_named_by_a_number_or_a_range(text, seeds):
    assert list(seeds_of(text)) == seeds


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--cases", "Breakout"], "--cases 'Breakout' is in the name of no case: ppo CartPole-v1"),
        (["--cases", "dqn,Breakout"], "--cases 'Breakout' is in the name of no case"),
        (["--sides", "theirs"], "no side 'theirs': choose from ours, ours-processes, sb3"),
        (["--against", "gymnasium", "--sides", "sb3"], "no side 'sb3': choose from fused, fused-processes, gymnasium"),
        (["--seeds", "5..1"], r"expected a seed such as 3, or a range such as 1\.\.5, got '5\.\.1'"),
        (["--seeds", "some"], "got 'some'"),
        (["--quick", "--markdown", "learning.md"], "--quick: expected no --markdown, as nothing is kept"),
        (["--json", "no/such/folder/a.json"], "folder does not exist"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(ran, more, message):
    with pytest.raises(InvalidInput, match=message):
        bench.run(["learning", *more])
    assert ran == []


def test_a_file_that_holds_no_runs_is_not_written_over(ran, tmp_path):
    path = tmp_path / "learning.json"
    path.write_text('{"format": "drivetrain-bench"}')
    with pytest.raises(FileFormatError, match="holds no runs"):
        bench.run(words(tmp_path))
    path.write_text("{")
    with pytest.raises(FileFormatError, match="expected the JSON"):
        bench.run(words(tmp_path))
    path.write_text('{"format": "drivetrain-learning", "format_version": 99, "runs": []}')
    with pytest.raises(FileFormatError, match="newer drivetrain"):
        bench.run(words(tmp_path))
    path.write_text('{"format": "drivetrain-learning", "runs": []}')
    with pytest.raises(FileFormatError, match="damaged: expected a whole number as format_version, got None"):
        bench.run(words(tmp_path))
    path.write_text('{"format": "drivetrain-learning", "format_version": 1, "runs": [{"case": "ppo CartPole-v1"}]}')
    with pytest.raises(FileFormatError, match=r"damaged: expected runs with .*; one has no command"):
        bench.run(words(tmp_path))
    assert ran == []
