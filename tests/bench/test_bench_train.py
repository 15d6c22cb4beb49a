"""`drivetrain bench train` as a whole, with rivals that answer at once."""

import json
import subprocess
import sys

import pytest

from drivetrain.bench import kept
from drivetrain.bench.process import Rival
from drivetrain.bench.train import command as bench_train
from drivetrain.bench.train.command import Options
from drivetrain.bench.train.contenders import PEERS, SB3, SBX
from drivetrain.bench.train.job import Outcome
from drivetrain.cli import bench
from drivetrain.core.errors import InvalidInput, MissingExtra, RunError

SPEED = {"ours": 1.0, "SB3": 6.0, "SBX": 3.0, "CleanRL": 7.0}
PEER_NAMES = ("SB3", "SBX", "CleanRL")


def answer(rival, job):
    settings = bench_train.SETTINGS[job.algo, job.env]
    return Outcome(
        cpu_s=SPEED[rival.name] * (1.0 if job.threads == 1 else 1.5),
        wall_s=SPEED[rival.name],
        import_cpu_s=0.1,
        num_steps=settings.num_steps(job.total_steps),
        num_updates=settings.num_updates(job.total_steps),
        mean_return=500.0,
        reached=True if job.kind == "target" else None,
    )


@pytest.fixture
def everybody(monkeypatch):
    monkeypatch.setattr(bench_train, "run_rival", answer)
    monkeypatch.setattr(Rival, "missing", lambda self: None)


def test_a_full_run_writes_json_and_page(everybody, tmp_path, capsys):
    paths = [tmp_path / "train.json", tmp_path / "train.md"]
    words = ["train", "--json", str(paths[0]), "--markdown", str(paths[1])]
    assert bench.run(words) == 0
    document = json.loads(paths[0].read_text())
    assert document["command"].startswith("drivetrain bench train --json")
    assert len(document["cases"]) == 3 * (5 + 1)
    strict = document["cases"][0]
    assert strict["name"] == "dqn CartPole-v1, same algorithm: 1 environment on all sides [CPU-s]"
    assert (strict["ours"], strict["peers"], strict["ratio"]) == (1.0, {"SB3": 6.0, "SBX": 3.0, "CleanRL": 7.0}, 3.0)
    assert [(target["against"], target["aim"], target["met"]) for target in strict["targets"]] == [
        ("SB3", 5.0, True),
        ("SBX", 2.0, True),
    ]
    assert len(strict["samples"]["ours"]) == 3
    whole = document["cases"][1]
    assert whole["name"] == "dqn CartPole-v1, same algorithm: 1 environment on all sides [CPU-s with imports]"
    assert (whole["ours"], whole["peers"], whole["targets"]) == (1.1, {"SB3": 6.1, "SBX": 3.1, "CleanRL": 7.1}, [])
    assert len(document["cases"][-1]["samples"]["SB3"]) == 5
    assert document["machine"]["threads"] == {"SB3": 1, "SBX": 1, "CleanRL": 1}
    eight = next(case for case in document["cases"] if "8 environments on all sides" in case["name"])
    assert set(eight["peers"]) == {"SB3", "SBX"}, "CleanRL's DQN takes one environment"
    assert document["skipped"] == []
    assert paths[1].read_text() in capsys.readouterr().out


def test_a_quick_run_is_small_and_promises_nothing(everybody, tmp_path):
    path = tmp_path / "train.json"
    assert bench.run(["train", "--quick", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert len(document["cases"]) == 6
    assert all(case["targets"] == [] for case in document["cases"])
    assert document["weaknesses"][0] == bench_train.QUICK_WEAKNESS


def test_a_quick_run_takes_more_where_more_is_asked_for():
    plan = Options(quick=True).plan()
    assert (plan.fixed_steps, list(plan.fixed_seeds), list(plan.target_seeds)) == (2_000, [1], [1])
    asked = Options(quick=True, steps=4_000, rounds=2, target_seeds=0).plan()
    assert (asked.fixed_steps, list(asked.fixed_seeds), list(asked.target_seeds)) == (4_000, [1, 2], [])
    assert (asked.probe_steps, asked.target_return) == (0, plan.target_return), "else as quick as ever"
    for algo, env in bench_train.SETTINGS:
        Options(algo=algo, env=env, quick=True).check()


def test_peers_that_are_not_installed_are_skipped_with_their_remedy(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench_train, "run_rival", answer)
    absent = Rival(name="SB3", module="m", requires=("no_such_module",), install=SB3.install)
    monkeypatch.setitem(bench_train.PEERS_OF, "dqn", (absent,))
    path = tmp_path / "train.json"
    assert bench.run(["train", "--rounds", "1", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    (skipped,) = document["skipped"]
    assert skipped["name"] == "SB3"
    assert skipped["remedy"] == 'pip install torch==2.13.0 "drivetrain[bench]"'
    assert document["cases"]
    assert all(case["ratio"] is None and case["peers"] == {} for case in document["cases"])
    assert "skipped: SB3" in capsys.readouterr().out


@pytest.mark.parametrize(("when", "listed"), [("target", "SBX, zoo"), ("fixed", "SBX")])
def test_a_peer_that_fails_is_listed_and_the_others_go_on(everybody, monkeypatch, tmp_path, when, listed):
    """Also one that cannot even run to choose its threads, which is before everything else."""

    def fail_for_sbx(rival, job):
        if rival is SBX and job.kind == when:
            raise RunError("SBX ended with code 1: boom")
        return answer(rival, job)

    monkeypatch.setattr(bench_train, "run_rival", fail_for_sbx)
    path = tmp_path / "train.json"
    assert bench.run(["train", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert [(peer["name"], peer["reason"]) for peer in document["skipped"]] == [
        (listed, "failed: SBX ended with code 1: boom")
    ]
    assert set(document["cases"][-1]["peers"]) == {"SB3", "CleanRL"}
    assert ("SBX" in document["machine"]["thread_probe"]) == (when == "target")


def test_the_time_to_target_can_be_left_out(everybody, tmp_path):
    path = tmp_path / "train.json"
    assert bench.run(["train", "--target-seeds", "0", "--json", str(path)]) == 0
    assert not [case for case in json.loads(path.read_text())["cases"] if "time to" in case["name"]]


def test_without_our_own_extra_the_message_names_it(monkeypatch):
    absent = Rival(name="ours", module="m", requires=("no_such_module",), install='pip install "drivetrain[train]"')
    monkeypatch.setattr(bench_train, "OURS", absent)
    with pytest.raises(MissingExtra, match=r"drivetrain\[train\]"):
        bench.run(["train"])


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_ppo_is_measured_in_steps_per_second_with_and_without_our_processes(everybody, tmp_path, env):
    path = tmp_path / "train.json"
    assert bench.run(["train", "--algo", "ppo", "--env", env, "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    names = [case["name"] for case in document["cases"]]
    assert names == [
        f"ppo {env}, same algorithm: ours {form} [{unit}]"
        for form in ("sequential", "parallel")
        for unit in ("steps/s", "CPU-s", "CPU-s with imports")
    ]
    steps, cpu = document["cases"][:2]
    assert (steps["better"], steps["ratio"], cpu["ratio"]) == ("higher", 3.0, 3.0)
    assert {target["against"]: target["met"] for target in steps["targets"]} == dict.fromkeys(PEER_NAMES, True)
    assert cpu["targets"] == []
    assert document["skipped"] == []


@pytest.mark.parametrize(
    ("algo", "env", "aims"),
    [
        ("sac", "Pendulum-v1", {"SB3": 2.2, "SBX": 1.5}),
        ("td3", "HalfCheetah-v5", {"SB3": 2.5, "SBX": 1.7}),
        ("ddpg", "Pendulum-v1", {}),
    ],
)
def test_continuous_actions_are_measured_in_wall_seconds_first(everybody, tmp_path, algo, env, aims):
    path = tmp_path / "train.json"
    assert bench.run(["train", "--algo", algo, "--env", env, "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert [case["name"] for case in document["cases"]] == [
        f"{algo} {env}, same algorithm: ours {form} [{unit}]"
        for form in ("sequential", "sequential, 2 learners", "parallel", "2 learners")
        for unit in ("wall s", "updates/s", "CPU-s", "CPU-s with imports")
    ]
    wall, updates, cpu = document["cases"][:3]
    assert (wall["better"], updates["better"], wall["ratio"], updates["ratio"]) == ("lower", "higher", 3.0, 3.0)
    assert {target["against"]: target["aim"] for target in wall["targets"]} == aims
    assert updates["targets"] == cpu["targets"] == []


def test_images_are_learned_from_with_one_environment_for_the_peers_and_no_returns(everybody, tmp_path):
    path = tmp_path / "train.json"
    assert bench.run(["train", "--env", "ALE/Pong-v5", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert [case["name"] for case in document["cases"]] == [
        f"dqn ALE/Pong-v5, same algorithm: ours {form} [{unit}]"
        for form in ("sequential", "parallel")
        for unit in ("CPU-s", "CPU-s with imports", "wall s")
    ]
    first = document["cases"][0]
    assert (set(first["peers"]), first["targets"]) == ({"SB3", "SBX", "CleanRL"}, [])
    assert first["details"]["ours"]["num_updates"] == [1_000] * 3
    assert "nothing about accelerators" in document["weaknesses"][0]


def test_ppo_learns_from_images_with_the_rows_of_ppo_and_one_of_two_learners(everybody, tmp_path):
    path = tmp_path / "train.json"
    assert bench.run(["train", "--algo", "ppo", "--env", "ALE/Pong-v5", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert [case["name"] for case in document["cases"]] == [
        f"ppo ALE/Pong-v5, same algorithm: ours {form} [{unit}]"
        for form in ("sequential", "parallel", "2 learners")
        for unit in ("steps/s", "CPU-s", "CPU-s with imports")
    ]
    first = document["cases"][0]
    assert {target["against"]: target["aim"] for target in first["targets"]} == {"SB3": 1, "SBX": 1, "CleanRL": 1}
    assert first["details"]["ours"]["num_updates"] == [80] * 3
    assert any("looks at each picture twice" in weakness for weakness in document["weaknesses"])


def test_without_atari_the_message_names_its_extra(monkeypatch):
    monkeypatch.setattr("drivetrain.bench.process.is_installed", lambda name: name != "ale_py")
    with pytest.raises(MissingExtra, match=r"not installed: ale_py.*drivetrain\[atari\]"):
        bench.run(["train", "--env", "ALE/Pong-v5"])


def test_a_later_command_with_more_rounds_adds_to_the_runs_that_were_kept(everybody, monkeypatch, tmp_path):
    ran = []

    def run(rival, job):
        ran.append((rival.name, job.num_actors, job.num_learners, job.seed))
        return answer(rival, job)

    monkeypatch.setattr(bench_train, "run_rival", run)
    monkeypatch.setattr(kept, "describe_code", lambda: "code")
    words = ["train", "--algo", "sac", "--env", "Pendulum-v1", "--steps", "500", "--keep", str(tmp_path / "runs.jsonl")]
    assert bench.run([*words, "--rounds", "1"]) == 0
    of_first = len(ran)
    path = tmp_path / "train.json"
    assert bench.run([*words, "--rounds", "2", "--json", str(path)]) == 0
    assert {seed for *_, seed in ran[of_first:]} == {2}
    assert [len(case["samples"]["ours"]) for case in json.loads(path.read_text())["cases"]] == [2] * 16


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "there is no bench 'nothing': choose from "),
        (["train", "--algo", "sac"], "sac on CartPole-v1 has no settings"),
        (["train", "--env", "Nowhere-v0"], "use --algo dqn --env CartPole-v1"),
        (["train", "--rounds", "0"], "--rounds: expected at least 1, got 0"),
        (["train", "--target-seeds", "-1"], "--target-seeds: expected at least 0, got -1"),
        (["train", "--algo", "td3", "--env", "HalfCheetah-v5", "--steps", "1000"], "more than the 1,000 before"),
        (
            ["train", "--algo", "td3", "--env", "HalfCheetah-v5", "--quick", "--steps", "9"],
            "more than the 1,000 before",
        ),
        (["train", "--json", "no/such/folder/a.json"], "folder does not exist"),
    ],
)
def test_a_mistake_is_refused_before_anything_runs(words, message):
    with pytest.raises(InvalidInput, match=message):
        bench.run(words)


def test_an_unknown_flag_is_refused_in_one_sentence():
    with pytest.raises(InvalidInput, match="--no-such-flag; `drivetrain bench train --help` lists the flags"):
        bench.run(["train", "--no-such-flag"])


def test_help_names_every_bench(capsys):
    assert bench.run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {what} " in shown for what in bench.BENCHES)
    assert bench.run([]) == 2


def test_options_say_where_they_are_used():
    plan = Options(rounds=4, target_seeds=2).plan()
    assert list(plan.fixed_seeds) == [1, 2, 3, 4]
    assert list(plan.target_seeds) == [1, 2]


def test_importing_the_bench_brings_no_framework():
    frameworks = ("jax", "torch", "gymnasium")
    code = f"import sys, drivetrain.bench.train.command; print([m for m in {frameworks} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_peer_says_how_to_install_it():
    assert all("drivetrain[bench]" in peer.install and "torch==" in peer.install for peer in PEERS)
