"""Whole runs with processes: they finish, they survive, they drain, and leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs the train extra")

import gymnasium
import gymnasium.envs.classic_control
from whole_run import COMMAND, ENDLESS, FLAGS, SMALL

from drivetrain.core.errors import InvalidInput, SegmentError
from drivetrain.train import resume, train
from drivetrain.train.config import TrainConfig
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from drivetrain.train.run_dir.folder import make_run_dir
from drivetrain.train.runs.requirements import describe, require_learner
from drivetrain.train.telemetry import time_report
from live_processes import is_running


@pytest.mark.whole
def test_a_run_with_two_actors_finishes_exactly(tmp_path):
    result = train("dqn", "CartPole-v1", total_steps=2_003, num_actors=2, seed=1, run_dir=str(tmp_path), **SMALL)
    assert (result.num_steps, result.num_updates) == (2_003, (2_003 - 200) // 2)
    assert len(result.returns) == 3
    assert {"config.json", "metrics.jsonl", "tensorboard", "checkpoint", "best"} <= set(os.listdir(tmp_path))
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    last = [row for row in rows if "weight_lag" in row or "loss" in row][-1]
    assert (last["num_steps"], last["num_updates"]) == (2_003, 901)
    assert any("episode_return" in row for row in rows)
    assert any("weight_lag" in row for row in rows)
    assert any("eval_return" in row for row in rows)
    assert time_report.load(tmp_path).notes == []  # nobody seems to have been killed


@pytest.mark.whole
def test_lock_step_finishes_exactly_and_never_acts_on_stale_weights(tmp_path):
    settings = {**SMALL, "tolerance": 0, "num_actors": 1, "total_steps": 807, "envs_per_actor": 8}
    result = train("dqn", "CartPole-v1", run_dir=str(tmp_path), **settings)
    assert result.num_updates == (807 - 200) // 2
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert max(row.get("weight_lag_max", 0) for row in rows) == 0


@pytest.mark.whole
def test_a_run_started_in_a_thread_finishes(tmp_path):
    results = []
    settings = {**SMALL, "total_steps": 600, "num_actors": 1}
    thread = threading.Thread(
        target=lambda: results.append(train("dqn", "CartPole-v1", run_dir=str(tmp_path), **settings))
    )
    thread.start()
    thread.join()
    assert results[0].num_steps == 600


@pytest.mark.whole
def test_the_command_prints_what_was_achieved_and_eval_repeats_it(start, tmp_path):
    run = start(*FLAGS, "--total-steps", "1500")
    code, out, err = run.end()
    assert code == 0, err
    assert "over 3 evaluation episodes" in out
    assert "environment steps/s" in out
    assert "0.5000 updates per step" in out
    assert str(run.run_dir) in out
    file = tmp_path / "result.json"
    done = subprocess.run([*COMMAND, "eval", str(run.run_dir), "--episodes", "3", "--json", str(file)], check=False)
    assert done.returncode == 0
    result = json.loads(file.read_text())
    assert set(result) == {"episodes", "mean", "interval", "returns", "success_rate"}
    assert f"mean return {result['mean']:.1f}" in out
    done = subprocess.run([*COMMAND, "eval", str(run.run_dir), "--episodes", "2", "--which", "last"], check=False)
    assert done.returncode == 0


def test_the_first_checkpoint_knows_what_observations_are_normalised_by(start):
    run = start(*ENDLESS, "--normalize-observations")
    run.wait_until((run.run_dir / "checkpoint" / "manifest.json").exists)
    run.kill_all()
    arrays, meta = load_checkpoint(run.run_dir)
    assert meta["num_updates"] == 0
    assert arrays["moments"][:, 0].sum() >= 200  # observations seen


@pytest.mark.whole
def test_the_kernel_knows_the_processes_of_a_run_by_their_names(start):
    run = start(*ENDLESS)
    run.wait_until_learning()
    names = {role: Path(f"/proc/{pid}/comm").read_text().strip() for pid, role in run.children().items()}
    assert names == {
        "fork-server": "fork server",
        "learner-0": "learner",
        "actor-0": "actor 0",
        "actor-1": "actor 1",
        "evaluator-0": "evaluator",
    }
    run.process.send_signal(signal.SIGINT)
    run.end()


def test_nothing_outlives_a_killed_supervisor(start):
    run = start(*ENDLESS)
    run.wait_until_learning()
    assert len(run.pids) == 5, "a fork server, two actors, a learner, an evaluator"
    run.process.kill()
    run.process.wait()
    deadline = time.monotonic() + 60
    while any(is_running(pid) for pid in run.pids):
        assert time.monotonic() < deadline, "processes are left"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["dqn", "CartPoleX-v1"], "environment 'CartPoleX-v1' cannot be made"),
        (["dqn", "Pendulum-v1"], "DQN needs discrete actions"),
        (["sarsa", "CartPole-v1"], "unknown algorithm 'sarsa'"),
        (["dqn"], "expected an algorithm and an environment first"),
        (["dqn", "CartPole-v1", "--run-dir", "/proc/none"], "cannot write to /proc/none"),
        (["dqn", "CartPole-v1", "--run-dir", "/dev/null"], "cannot write to /dev/null"),
        (["dqn", "CartPole-v1", "--run-dir", "/usr"], "/usr is not empty"),
    ],
)
def test_a_mistake_of_the_user_is_one_sentence_and_exit_code_2(arguments, sentence):
    done = subprocess.run([*COMMAND, "train", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("flag", "value", "sentence"),
    [
        ("--batch-size", "0", "drivetrain: error: batch_size: expected at least 1, got 0; "),
        ("--update-ratio", "1/0", "drivetrain: error: --update-ratio: expected a denominator above 0, got 1/0; "),
    ],
)
def test_a_flag_out_of_range_is_named_with_what_it_may_be(flag, value, sentence):
    arguments = ["train", "dqn", "CartPole-v1", flag, value]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(sentence)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.whole
@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_eval_of_a_damaged_or_foreign_folder_is_one_sentence(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    for folder in (tmp_path, tmp_path / "absent"):
        done = subprocess.run([*COMMAND, "eval", str(folder)], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1


def test_importing_the_package_loads_no_framework():
    code = (
        "import sys, drivetrain.train; print(sorted({'jax', 'gymnasium', 'optax', 'rich', 'tyro'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("algo", "settings", "sentence"),
    [
        ("dqn", {"capacity": 100_000}, r"a replay of capacity 100000 needs .*use a smaller capacity"),
        (
            "dqn",
            {"capacity": 2_000, "batch_size": 900, "updates_per_call": 64},
            "a sample of 64 batches .*use a smaller batch_size",
        ),
        ("ppo", {"num_envs": 4_096, "rollout_length": 64}, "a rollout of 262,144 steps needs .*use fewer environments"),
        ("dqn", {"num_actors": 2**30, "num_step": 1}, "a step of .* environments needs .*use fewer actors"),
    ],
    ids=["replay", "batches", "rollout", "environments"],
)
def test_what_does_not_fit_into_memory_is_refused_before_anything_starts(
    tmp_path, monkeypatch, algo, settings, sentence
):
    monkeypatch.setattr("drivetrain.core.segments.available_memory", lambda: 2**20)
    with pytest.raises(SegmentError, match=sentence):
        train(algo, "CartPole-v1", run_dir=str(tmp_path / "run"), **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("num_actors", [0, 2])
def test_a_replay_whose_frames_open_windows_would_have_is_refused_before_anything_starts(tmp_path, num_actors):
    settings = {"num_actors": num_actors, "envs_per_actor": 20, "frame_stack": 16, "capacity": 200, "batch_size": 4}
    with pytest.raises(InvalidInput, match=r"the open windows of \d0 environments .* larger capacity or fewer envir"):
        train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), num_step=3, **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.whole
@pytest.mark.parametrize("num_actors", [0, 1])
def test_a_replay_on_a_disk_needs_no_memory_and_leaves_nothing_there(tmp_path, monkeypatch, num_actors):
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = {**SMALL, "num_actors": num_actors, "total_steps": 600, "scratch_dir": "scratch"}
    with monkeypatch.context() as little:
        little.setattr("drivetrain.train.experience.experience.require_memory", _only_for_steps_and_samples)
        result = train("dqn", "CartPole-v1", run_dir="run", **settings)
    assert result.num_updates == 200
    assert os.listdir("scratch") == []
    result = resume("run", total_steps=800)
    assert (result.num_steps, result.num_updates) == (800, 300)
    assert os.listdir("scratch") == []
    os.rmdir("scratch")
    with pytest.raises(InvalidInput, match=r"scratch_dir: expected a folder, got .*scratch'; make it first"):
        resume("run", total_steps=900)
    with pytest.raises(InvalidInput, match=r"scratch_dir: expected a folder, got .*scratch'; make it first"):
        train("dqn", "CartPole-v1", run_dir="other", **settings)
    assert not (tmp_path / "other").exists()


def _only_for_steps_and_samples(nbytes, *, what, **_):
    assert "replay" not in what


def test_more_actors_than_fit_into_memory_are_refused_before_any_begins(tmp_path, monkeypatch):
    monkeypatch.setattr("drivetrain.train.runs.requirements.available_memory", lambda: 2**30)
    with pytest.raises(InvalidInput, match=r"num_actors: expected at most 128, .*, got 3,000; .* envs_per_actor"):
        train("dqn", "CartPole-v1", num_actors=3_000, num_step=1, run_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_instructions_that_nobody_knows_are_refused_before_anything_starts(tmp_path, monkeypatch, algo):
    monkeypatch.setenv("DRIVETRAIN_SIMD", "avx3")
    with pytest.raises(InvalidInput, match="DRIVETRAIN_SIMD: expected baseline, avx2 or avx512, got 'avx3'"):
        train(algo, "CartPole-v1", run_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_runs_that_begin_in_the_same_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda *_: "20260101-000000")
    config = TrainConfig.default("dqn", "CartPole-v1")
    folders = {make_run_dir(config, tmp_path) for _ in range(3)}
    assert len(folders) == 3
    assert all((folder / "logs").is_dir() for folder in folders)


def test_an_id_that_a_script_registers_itself_is_refused_for_processes_alone(tmp_path):
    mine = type("Mine", (gymnasium.envs.classic_control.CartPoleEnv,), {"__module__": "__main__"})
    gymnasium.register("Mine-v0", mine, max_episode_steps=20)
    config = TrainConfig.default("dqn", "Mine-v0")
    interface = describe(config)
    require_learner(config.override(num_actors=0), interface)
    with pytest.raises(InvalidInput, match=r"'Mine-v0' is registered by the script or notebook, .*give the class"):
        require_learner(config.override(num_actors=1), interface)


@pytest.mark.whole
def test_so_is_an_id_that_a_script_registers_of_a_class_elsewhere(tmp_path):
    gymnasium.register("Moved-v0", "strange_envs:Ending", max_episode_steps=20)
    with pytest.raises(InvalidInput, match=r"'Moved-v0' is registered by the script or notebook, .* module:Id"):
        train("dqn", "Moved-v0", num_actors=1, run_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    cart_pole = "gymnasium.envs.classic_control:CartPoleEnv"  # one of Gymnasium's own classes, under another name
    gymnasium.register("LongCartPole-v0", cart_pole, max_episode_steps=2_000)
    with pytest.raises(InvalidInput, match=r"'LongCartPole-v0' is registered by the script"):
        train("dqn", "LongCartPole-v0", num_actors=1, run_dir=str(tmp_path / "run"))
    require_learner(TrainConfig.default("dqn", "CartPole-v1"), describe(TrainConfig.default("dqn", "CartPole-v1")))


@pytest.mark.whole
def test_weights_that_an_actor_acts_by_for_many_steps_are_told_to_be_behind(tmp_path):
    settings = {**SMALL, "update_ratio": 1, "tolerance": 400, "grant_length": 50, "envs_per_actor": 2}
    result = train("dqn", "strange_envs:Slow-v0", total_steps=1_500, num_actors=1, run_dir=str(tmp_path), **settings)
    rows = [json.loads(line) for line in (result.run_dir / "metrics.jsonl").read_text().splitlines()]
    assert max(row.get("weight_lag_max", 0) for row in rows) > 0
    assert min(row.get("weight_lag", 0) for row in rows) >= 0
