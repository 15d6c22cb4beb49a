"""Runs that are taken up again with other numbers of actors and learners, as on a machine with other cores."""

import json

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from test_deterministic import require_equal, run
from whole_run import SMALL, Run

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.train import resume, train
from drivetrain.train.config import TrainConfig
from drivetrain.train.normalization.moments import merged, of_as_many
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from drivetrain.train.runs.resuming import Changes

ROLLOUTS = {
    "num_envs": 4, "rollout_length": 16, "batch_size": 16, "num_epochs": 2, "hidden": (8,), "total_steps": 128,
    "eval_episodes": 1, "final_eval_episodes": 1,
}  # fmt: skip


def run_settings(run_dir):
    return json.loads((run_dir / "config.json").read_text())["run"]


def seen(run_dir):
    """Values that the checkpoint's moments have counted, and over how many environments."""
    table = load_checkpoint(run_dir)[0]["moments"]
    return merged(table).num_seen, len(table)


@pytest.mark.whole
def test_actors_come_and_go_and_the_counts_and_what_was_seen_go_on(tmp_path):
    run_dir = tmp_path / "run"
    settings = {**SMALL, "normalize_observations": True, "num_actors": 2, "total_steps": 600}
    train("dqn", "CartPole-v1", run_dir=str(run_dir), **settings)
    for num_actors, total_steps in ((1, 1_000), (0, 1_400), (2, 1_800)):
        result = resume(run_dir, total_steps=total_steps, num_actors=num_actors)
        assert (result.num_steps, result.num_updates) == (total_steps, (total_steps - 200) // 2)
        kept = run_settings(run_dir)
        assert (kept["num_actors"], kept["envs_per_actor"]) == (num_actors, 4)
        assert seen(run_dir) == (total_steps, 4 * max(1, num_actors))


@pytest.mark.whole
def test_rollouts_keep_their_environments_however_many_actors_share_them(tmp_path):
    run_dir = tmp_path / "run"
    train("ppo", "CartPole-v1", run_dir=str(run_dir), num_actors=2, normalize_observations=True, **ROLLOUTS)
    for num_actors, total_steps in ((4, 256), (0, 384)):
        result = resume(run_dir, total_steps=total_steps, num_actors=num_actors)
        assert (result.num_steps, result.num_updates) == (total_steps, 2 * total_steps // 16)
        kept = run_settings(run_dir)
        assert (kept["num_actors"], kept["envs_per_actor"]) == (num_actors, 4 // max(1, num_actors))
        assert seen(run_dir) == (total_steps, 4)
    manifest = run_dir / "checkpoint" / "manifest.json"
    kept = json.loads(manifest.read_text())
    del kept["config"]["agent"]["num_epochs"]
    manifest.write_text(json.dumps(kept))
    with pytest.raises(FileFormatError, match=r"counts 48 updates, and has settings with 40 after each rollout; use"):
        resume(run_dir, total_steps=512)


@pytest.mark.whole
def test_a_deterministic_run_ends_with_the_same_bits_with_other_actors(tmp_path):
    run("sac", tmp_path / "whole", 0, prioritized=False)
    run("sac", tmp_path / "half", 0, prioritized=False, total_steps=320)
    resume(tmp_path / "half", total_steps=601, num_actors=2)
    assert run_settings(tmp_path / "half")["envs_per_actor"] == 2
    require_equal(tmp_path / "whole", tmp_path / "half")


@pytest.mark.whole
def test_a_run_that_never_had_a_checkpoint_begins_anew_with_other_actors(tmp_path):
    run_dir = tmp_path / "run"
    train("dqn", "CartPole-v1", run_dir=str(run_dir), num_actors=0, total_steps=240, **SMALL)
    for left in (run_dir / "checkpoint").iterdir():
        left.unlink()
    (run_dir / "checkpoint").rmdir()
    (run_dir / "result.json").unlink()
    assert resume(run_dir, num_actors=1).num_steps == 240
    assert run_settings(run_dir)["num_actors"] == 1


@pytest.mark.slow  # compiles for one learner and for two
def test_learners_come_and_go_from_the_command_line(tmp_path):
    run_dir = tmp_path / "run"
    settings = {**SMALL, "hidden": (256, 256), "batch_size": 64, "update_ratio": "1/8", "capacity": 2_000}
    train("dqn", "CartPole-v1", run_dir=str(run_dir), num_actors=1, num_learners=2, oversubscribe=True, total_steps=400,
          **settings)  # fmt: skip
    for num_learners, total_steps in (("1", "600"), ("2", "800")):
        resumed = Run(run_dir, "--num-learners", num_learners, "--total-steps", total_steps, resume=True)
        code, out, err = resumed.end()
        assert code == 0, err
        assert f"{num_learners} learner" in out
        assert run_settings(run_dir)["num_learners"] == int(num_learners)
        assert load_checkpoint(run_dir)[1]["num_updates"] == (int(total_steps) - 200) // 8


CONFIGS = {
    "dqn": TrainConfig.default("dqn", "CartPole-v1"),
    "sac": TrainConfig.default("sac", "Pendulum-v1").override(deterministic=True, num_actors=2, envs_per_actor=2),
    "ppo": TrainConfig.default("ppo", "CartPole-v1").override(num_actors=0, **ROLLOUTS),
}


@pytest.mark.parametrize(
    ("algo", "changes", "sentence"),
    [
        ("ppo", {"num_actors": 3}, "num_actors: expected a divisor of the run's 4 environments, which stay, got 3"),
        ("sac", {"num_actors": 3}, "num_actors: expected a divisor of the run's 4 environments"),
        ("sac", {"num_learners": 2}, "num_learners: expected 1, as before, in a deterministic run, .*got 2; leave"),
        ("ppo", {"num_learners": 3}, r"num_learners: expected a divisor of batch_size \(16\), got 3"),
        ("ppo", {"num_actors": -1}, "num_actors: expected 0"),
        ("ppo", {"num_actors": "auto"}, "num_actors: expected a whole number or None, got 'auto'; .*: give a number"),
        ("dqn", {"num_learners": "worthwhile"}, "num_learners: expected a whole number or None, got 'worthwhile'; "),
        ("ppo", {"total_steps": 0}, "total_steps: expected in 1"),
        (
            "ppo",
            {"scratch_dir": "x"},
            "^scratch_dir: expected none for a run of ppo, which has no replay, got 'x'; leave",
        ),
    ],
)
def test_processes_that_a_run_cannot_go_on_with_are_refused_in_one_sentence(algo, changes, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Changes(**changes).applied(CONFIGS[algo].resolved())


def test_moments_shared_by_other_environments_are_the_same_as_a_whole():
    rng = np.random.default_rng(0)
    table = np.abs(rng.normal(size=(6, 7)))
    before, after = merged(table), merged(of_as_many(table, 4))
    assert of_as_many(table, 6) is table
    assert before.num_seen == after.num_seen
    np.testing.assert_allclose(after.mean, before.mean, rtol=1e-12)
    np.testing.assert_allclose(after.variance, before.variance, rtol=1e-12)
    nothing = merged(of_as_many(np.zeros((6, 7)), 2))
    assert (nothing.num_seen, nothing.mean.tolist(), nothing.variance.tolist()) == (0, [0] * 3, [1] * 3)


@pytest.mark.whole
def test_a_folder_for_the_replay_is_the_one_of_the_resume_that_named_it_wherever_others_are(tmp_path, monkeypatch):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    settings = {**SMALL, "num_actors": 0, "scratch_dir": str(tmp_path / "old"), "run_dir": str(tmp_path / "run")}
    train("dqn", "CartPole-v1", total_steps=400, **settings)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("drivetrain.train.runs.resuming.carry_out", lambda job: job.begin())
    resume("run", total_steps=500, scratch_dir="new")  # and is killed before its first checkpoint
    monkeypatch.undo()
    assert resume(tmp_path / "run").num_steps == 500
    assert json.loads((tmp_path / "run" / "config.json").read_text())["replay"]["scratch_dir"] == str(tmp_path / "new")
