"""Runs that are taken up again after any death end as if nothing had happened."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from gymnasium.envs.classic_control import CartPoleEnv
from whole_run import COMMAND, SMALL, lose_all_rows, rows_of

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.train import resume, train
from drivetrain.train.run_dir.checkpoint import load_checkpoint, load_saved_policy
from drivetrain.train.run_dir.folder import RunLock
from live_processes import is_running


def evaluations_of(run_dir):
    return [row for row in rows_of(run_dir) if "eval_return" in row]


@pytest.mark.whole
def test_a_finished_run_says_so_goes_on_with_more_steps_and_can_be_resumed_from_a_thread(tmp_path):
    run_dir = tmp_path / "run"
    first = train("dqn", "CartPole-v1", total_steps=800, num_actors=1, run_dir=str(run_dir), **SMALL)
    best = (run_dir / "best" / "policy.npz").stat().st_mtime_ns
    with pytest.raises(InvalidInput, match=r"is finished \(800 steps\); give more total_steps"):
        resume(run_dir)
    with pytest.raises(InvalidInput, match="expected at least the 800 steps already taken, got 700"):
        resume(run_dir, total_steps=700)
    assert (run_dir / "best" / "policy.npz").stat().st_mtime_ns == best
    results = []
    thread = threading.Thread(target=lambda: results.append(resume(run_dir, total_steps=1_601)))
    thread.start()
    thread.join()
    assert (results[0].num_steps, results[0].num_updates) == (1_601, (1_601 - 200) // 2)
    assert results[0].learning_s > first.learning_s
    assert json.loads((run_dir / "result.json").read_text())["num_steps"] == 1_601
    assert len(results[0].returns) == 3


@pytest.mark.whole
def test_what_a_resume_asked_for_holds_if_it_was_killed_before_its_first_checkpoint(tmp_path, monkeypatch):
    train("dqn", "CartPole-v1", total_steps=400, num_actors=0, run_dir=str(tmp_path), **SMALL)
    monkeypatch.setattr("drivetrain.train.runs.resuming.carry_out", lambda job: job.begin())
    resume(tmp_path, total_steps=600)
    monkeypatch.undo()
    assert resume(tmp_path).num_steps == 600


def test_the_state_of_another_run_is_refused(copy, tmp_path):
    train("dqn", "CartPole-v1", total_steps=400, num_actors=0, seed=9, run_dir=str(tmp_path / "other"), **SMALL)
    (theirs,) = (tmp_path / "other" / "checkpoint").glob("state-*.npz")
    (ours,) = (copy / "checkpoint").glob("state-*.npz")
    shutil.copy(theirs, ours)
    with pytest.raises(FileFormatError, match=r"expected the state that was saved with manifest\.json, got another"):
        resume(copy, total_steps=500)


@pytest.mark.whole
@pytest.mark.parametrize("num_actors", [0, 1])
def test_an_environment_that_changes_the_folder_leaves_the_runs_where_they_are(tmp_path, monkeypatch, num_actors):
    class Elsewhere(CartPoleEnv):
        def __init__(self):
            super().__init__()
            os.chdir("/")

    monkeypatch.chdir(tmp_path)
    settings = {**SMALL, "num_actors": num_actors}
    assert train("dqn", Elsewhere, total_steps=400, run_dir="here", **settings).run_dir == tmp_path / "here"
    os.chdir(tmp_path)
    assert resume("here", total_steps=500, env=Elsewhere).num_steps == 500


def test_a_fork_that_outlives_a_run_does_not_hold_it(copy):
    program = (
        "import os, sys, time; from pathlib import Path; from drivetrain.train.run_dir.folder import RunLock\n"
        "lock = RunLock(Path(sys.argv[1])); child = os.fork()\n"
        "print(child, flush=True) if child else (os.close(1), time.sleep(1_000))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(copy)], stdout=subprocess.PIPE, text=True, check=True)
    child = int(done.stdout)
    try:
        with RunLock(copy):
            assert is_running(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_run_that_died_in_its_last_evaluation_is_resumed_for_that_alone(tmp_path):
    run_dir = tmp_path / "run"
    first = train("dqn", "CartPole-v1", total_steps=400, num_actors=0, run_dir=str(run_dir), **SMALL)
    (run_dir / "result.json").unlink()
    params, evaluations = load_checkpoint(run_dir)[0]["params"], evaluations_of(run_dir)
    again = resume(run_dir)
    assert again.returns == first.returns
    assert evaluations_of(run_dir) == evaluations, "the one that was played again is not told twice"
    assert (load_checkpoint(run_dir)[0]["params"] == params).all()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run; tests work on copies."""
    run_dir = tmp_path_factory.mktemp("finished") / "run"
    settings = {**SMALL, "num_actors": 0, "total_steps": 400, "capacity": 1_000, "csv": True}
    train("dqn", "CartPole-v1", run_dir=str(run_dir), **settings)
    return run_dir


@pytest.fixture
def copy(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "copy")


def edit_manifest(run_dir, **changes):
    path = run_dir / "checkpoint" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.whole
@pytest.mark.parametrize("num_actors", [0, 1])
def test_an_evaluation_that_was_due_and_not_told_is_played_when_the_run_goes_on(tmp_path, num_actors):
    settings = {**SMALL, "eval_interval_steps": 300, "total_steps": 400, "num_actors": 0}
    train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), **settings)
    rows = [json.dumps(row) for row in rows_of(tmp_path / "run") if "eval_return" not in row]
    (tmp_path / "run" / "metrics.jsonl").write_text("\n".join([*rows, ""]))
    resume(tmp_path / "run", total_steps=4_000, num_actors=num_actors)
    assert 400 <= evaluations_of(tmp_path / "run")[0]["num_steps"] < 600, "before the next one is due"


@pytest.mark.parametrize("num_actors", [0, pytest.param(1, marks=pytest.mark.whole)])
def test_weights_that_were_evaluated_before_are_not_evaluated_again_when_the_run_goes_on(copy, num_actors):
    evaluations = evaluations_of(copy)
    assert resume(copy, total_steps=401, num_actors=num_actors).num_updates == 100, "there is no update for one step"
    assert evaluations_of(copy) == evaluations


@pytest.mark.whole
@pytest.mark.parametrize("num_actors", [0, 1])
def test_a_run_killed_while_it_saved_its_first_best_policy_goes_on(tmp_path, num_actors):
    run_dir = tmp_path / "run"
    train("dqn", "CartPole-v1", total_steps=400, num_actors=num_actors, run_dir=str(run_dir), **SMALL)
    (run_dir / "best" / "policy.npz").unlink()  # the folder is made first
    found = resume(run_dir, total_steps=600)
    assert found.num_steps == 600
    assert (run_dir / "best" / "policy.npz").exists()


def test_a_run_that_ended_before_its_first_checkpoint_begins_anew_in_its_folder(tmp_path):
    run_dir = tmp_path / "run"
    settings = {"num_actors": 0, "total_steps": 240, "run_dir": str(run_dir), "csv": True, **SMALL}
    train("dqn", "CartPole-v1", **settings)
    weights, rows = load_saved_policy(run_dir, "last").vector, rows_of(run_dir)
    (run_dir / "result.json").unlink()
    shutil.rmtree(run_dir / "checkpoint")
    (run_dir / "checkpoint").write_text("")
    with pytest.raises(InvalidInput, match="checkpoint: expected a folder: File exists; remove what is there"):
        resume(run_dir)
    (run_dir / "checkpoint").unlink()
    assert resume(run_dir).num_steps == 240
    np.testing.assert_array_equal(load_saved_policy(run_dir, "last").vector, weights)
    assert [row["num_steps"] for row in rows_of(run_dir)] == [row["num_steps"] for row in rows]
    shutil.rmtree(run_dir / "checkpoint")
    with pytest.raises(
        FileFormatError, match="is finished, and has no checkpoint"
    ):  # somebody took a finished run's away
        resume(run_dir, total_steps=300)


def test_a_copy_of_a_run_is_resumed_in_its_own_folder(copy, finished):
    before = (finished / "checkpoint" / "manifest.json").read_bytes()
    result = resume(copy, total_steps=500)
    assert result.run_dir == copy
    assert json.loads((copy / "config.json").read_text())["run"]["run_dir"] == str(copy)
    assert (finished / "checkpoint" / "manifest.json").read_bytes() == before


@pytest.mark.whole
def test_what_cannot_be_resumed_is_refused_in_one_sentence(copy, tmp_path):
    with pytest.raises(InvalidInput, match="expected the folder of a run"):
        resume(tmp_path / "absent")
    with pytest.raises(InvalidInput, match="expected the folder of a run"):
        resume(tmp_path, total_steps=500)
    with pytest.raises(InvalidInput, match=r"run_dir: expected a path, got '~no-such-user/run', and .* is no user's"):
        resume("~no-such-user/run")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileFormatError, match=r"expected the config.json of a run"):
        resume(tmp_path, total_steps=500)
    saved = json.loads((copy / "checkpoint" / "manifest.json").read_text())
    changed = {**saved["interface"], "observations": "Vector(shape=(5,))"}
    edit_manifest(copy, interface=changed)
    with pytest.raises(InvalidInput, match=r"has changed.*its observation space was .*\(5,\).*is a Box of 4 numbers"):
        resume(copy, total_steps=500)
    edit_manifest(copy, interface=saved["interface"], format=99)
    with pytest.raises(FileFormatError, match="newer than this drivetrain"):
        resume(copy, total_steps=500)
    edit_manifest(copy, format=saved["format"], config={**saved["config"], "algo": "sarsa"})
    with pytest.raises(FileFormatError, match="its configuration makes no sense: unknown algorithm 'sarsa'"):
        resume(copy, total_steps=500)
    edit_manifest(copy, config={**saved["config"], "run": 3})
    with pytest.raises(FileFormatError, match="its configuration makes no sense"):
        resume(copy, total_steps=500)
    edit_manifest(copy, config=saved["config"])
    folders = [(name, "expected a folder") for name in ("best", "logs", "tensorboard")]
    for name, sentence in [*folders, ("lock", "its lock")]:
        there = copy / name
        aside = there.rename(tmp_path / name) if there.exists() else None
        there.mkdir() if name == "lock" else there.write_text("")
        with pytest.raises(InvalidInput, match=f"{sentence}.*(File exists; remove|Is a directory; work on a copy)"):
            resume(copy, total_steps=500)
        there.rmdir() if name == "lock" else there.unlink()
        if aside is not None:
            aside.rename(there)
    without = {name: value for name, value in saved.items() if name not in ("learning_s", "interface")}
    (copy / "checkpoint" / "manifest.json").write_text(json.dumps(without))
    with pytest.raises(FileFormatError, match="its manifest lacks learning_s, interface"):
        resume(copy, total_steps=500)
    (copy / "checkpoint" / "manifest.json").write_text(json.dumps(saved))
    replay = copy / "checkpoint" / saved["files"]["replay"]
    replay.unlink()
    with pytest.raises(FileFormatError, match="replay is gone"):
        resume(copy, total_steps=500)
    replay.mkdir()
    with pytest.raises(FileFormatError, match="expected the file of the checkpoint's replay, got a folder; use an"):
        resume(copy, total_steps=500)
    done = subprocess.run([*COMMAND, "resume", str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"interface": None}, "its manifest has None as interface; use an older copy"),
        ({"num_resumes": "x", "elapsed_s": None}, "its manifest has 'x' as num_resumes, None as elapsed_s"),
        ({"learning_s": float("nan")}, "its manifest has nan as learning_s"),
        ({"num_updates": 10**9}, "its manifest counts 1,000,000,000 updates, and its state"),
        ({"encoder_frozen": True}, "says after 400 steps that the encoder is frozen, and has settings with none as"),
    ],
)
def test_a_manifest_that_has_what_cannot_be_is_refused(copy, wrong, sentence):
    edit_manifest(copy, **wrong)
    with pytest.raises(FileFormatError, match=sentence):
        resume(copy, total_steps=500)


def test_a_damaged_best_policy_is_refused_before_anything_starts_and_missing_logs_are_no_hindrance(copy):
    best = copy / "best" / "policy.npz"
    best.write_bytes(best.read_bytes()[:100])
    with pytest.raises(FileFormatError, match=r"best/policy\.npz: truncated.*remove it to keep the best from here on"):
        resume(copy, total_steps=410)
    best.unlink()
    shutil.rmtree(copy / "logs")
    assert resume(copy, total_steps=410).num_steps == 410


def test_too_few_steps_to_fill_a_lost_replay_are_refused(copy):
    files = {"state": json.loads((copy / "checkpoint" / "manifest.json").read_text())["files"]["state"]}
    edit_manifest(copy, files=files)
    with pytest.raises(InvalidInput, match="has no replay, and its 10 steps left are fewer than the 32 after which"):
        resume(copy, total_steps=410)


@pytest.mark.whole
@pytest.mark.parametrize("num_actors", [0, 1])
def test_a_warm_up_that_is_gone_on_with_waits_for_the_rows_that_its_replay_lacks(tmp_path, num_actors):
    run_dir = tmp_path / "run"
    tight = {**SMALL, "warmup_steps": 32, "tolerance": 0, "updates_per_call": 1, "num_actors": num_actors}
    train("dqn", "CartPole-v1", total_steps=20, run_dir=str(run_dir), **tight)
    lose_all_rows(run_dir)
    with pytest.raises(InvalidInput, match="only 0 rows in its replay, and its 20 steps left are fewer than the 32"):
        resume(run_dir, total_steps=40)
    assert resume(run_dir, total_steps=100).num_updates == (100 - 32) // 2


def test_a_resume_that_is_refused_leaves_the_run_as_it_was(copy):
    manifest = json.loads((copy / "checkpoint" / "manifest.json").read_text())
    edit_manifest(copy, files={"state": manifest["files"]["state"]})
    before = [(copy / name).read_text() for name in ("config.json", "result.json")]
    with pytest.raises(InvalidInput, match="raise total_steps"):
        resume(copy, total_steps=410)
    (copy / "metrics.csv").unlink()
    (copy / "metrics.csv").mkdir()
    with pytest.raises(InvalidInput, match=r"metrics\.csv: expected a file, got a folder; remove it"):
        resume(copy, total_steps=500)
    assert [(copy / name).read_text() for name in ("config.json", "result.json")] == before


def test_nobody_resumes_a_run_that_somebody_is_working_on(copy):
    with RunLock(copy), pytest.raises(InvalidInput, match="another process is working on this run"):
        resume(copy, total_steps=500)


@pytest.mark.parametrize("num_actors", [0, 1])
@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            lambda run: [path.unlink() for path in (run / "checkpoint").glob("replay-*")],
            "the checkpoint's replay is gone",
        ),
        (lambda run: cut_in_half(next((run / "checkpoint").glob("replay-*"))), "replay-"),
        (
            lambda run: (run / "metrics.jsonl").write_text("\0\0\n"),
            "metrics.jsonl: damaged.*; mend the line, or remove",
        ),
    ],
)
def test_a_resume_that_cannot_read_what_the_run_has_left_leaves_it_as_it_was(copy, damage, sentence, num_actors):
    damage(copy)
    before = [(copy / name).read_text() for name in ("config.json", "result.json")]
    with pytest.raises(FileFormatError, match=sentence):
        resume(copy, total_steps=500, num_actors=num_actors)
    assert [(copy / name).read_text() for name in ("config.json", "result.json")] == before


def replay_of(run_dir):
    (path,) = (run_dir / "checkpoint").glob("replay-*")
    return path


def cut_in_half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.whole
def test_a_replay_whose_folder_is_gone_goes_on_in_another_one(tmp_path):
    folders = [tmp_path / name for name in ("old", "new")]
    for folder in folders:
        folder.mkdir()
    run_dir = tmp_path / "run"
    settings = {**SMALL, "num_actors": 0, "scratch_dir": str(folders[0])}
    train("dqn", "CartPole-v1", total_steps=400, run_dir=str(run_dir), **settings)
    shutil.rmtree(folders[0])
    with pytest.raises(InvalidInput, match=r"scratch_dir: expected a folder, got '.*old'; make it first, or "):
        resume(run_dir, total_steps=500)
    assert json.loads((run_dir / "result.json").read_text())["num_steps"] == 400
    assert resume(run_dir, total_steps=500, scratch_dir=str(folders[1])).num_steps == 500
    assert json.loads((run_dir / "config.json").read_text())["replay"]["scratch_dir"] == str(folders[1])
