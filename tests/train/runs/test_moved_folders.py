"""Folders of runs that somebody renames, or copies by hard links, while they go on."""

import os
import shutil

import numpy as np
import pytest

from drivetrain.replay import Replay
from drivetrain.train import load_policy, resume, train
from drivetrain.train.run_dir.checkpoint import load_checkpoint, load_replay, save_checkpoint
from drivetrain.train.telemetry.metrics import read_rows

SETTINGS = {"warmup_steps": 200, "capacity": 2_000, "batch_size": 32, "hidden": (16,), "envs_per_actor": 4, "csv": True}
EVALUATIONS = {"eval_interval_steps": 600, "eval_episodes": 2, "final_eval_episodes": 3}


@pytest.mark.whole
@pytest.mark.parametrize("num_actors", [0, 1])
def test_a_run_whose_folder_is_moved_away_goes_on_in_a_new_one_and_what_was_moved_is_a_run_as_of_then(
    tmp_path, num_actors, capfd
):
    run_dir, moved = tmp_path / "run", tmp_path / "moved"

    def move_and_stop(event):
        if event.kind == "checkpoint" and (run_dir / "best" / "policy.npz").exists() and not moved.exists():
            run_dir.rename(moved)
        elif event.kind == "record" and moved.exists() and (run_dir / "config.json").exists():
            return "stop"
        return None

    done = train(
        "dqn",
        "CartPole-v1",
        total_steps=10**9,
        num_actors=num_actors,
        run_dir=run_dir,
        callbacks=[move_and_stop],
        checkpoint_interval_s=0.1,
        **SETTINGS,
        **EVALUATIONS,
    )
    assert f"{run_dir / 'config.json'} was gone" in capfd.readouterr().err
    assert [episode.total_reward for episode in load_policy(run_dir).evaluate(3)] == list(done.returns)
    rows = [read_rows(folder / "metrics.jsonl") for folder in (moved, run_dir)]
    assert 0 < rows[0][-1]["num_steps"] < rows[1][-1]["num_steps"] == done.num_steps
    assert (run_dir / "metrics.csv").is_file()
    for folder in (run_dir, moved):
        wanted = load_checkpoint(folder)[1]["num_steps"] + 300
        assert resume(folder, total_steps=wanted).num_steps == wanted


def test_a_copy_of_hard_links_keeps_its_checkpoint_whatever_is_saved_after_it(tmp_path):
    run_dir, copy = tmp_path / "run", tmp_path / "copy"

    def add_and_save(replay, first, folder):
        ends = np.ones(10, bool)
        numbers, rewards = np.arange(first, first + 10), np.zeros(10, np.float32)
        replay.writer(num_envs=10).add(x=numbers, reward=rewards, terminated=ends, truncated=~ends)
        save_checkpoint(folder, {"params": np.zeros(5, np.float32)}, {"num_steps": 1, "num_updates": 1}, replay=replay)

    def kept_in(folder):
        with load_replay(folder, shared=False) as kept:
            return sorted(kept.read(kept.all_keys()).data["x"].tolist())

    replay = Replay(64, spec={"x": ((), "int64")}, prioritized=True, seed=0)
    for first in (0, 10):
        add_and_save(replay, first, run_dir)
    shutil.copytree(run_dir, copy, copy_function=os.link)  # as `cp -al`, or a callback that keeps checkpoints
    for first in (20, 30, 40):
        add_and_save(replay, first, run_dir)
    assert kept_in(copy) == list(range(20))
    with load_replay(copy, shared=False) as gone_on:
        for first in (100, 110, 120):
            add_and_save(gone_on, first, copy)
    assert kept_in(copy) == [*range(20), *range(100, 130)]
    assert kept_in(run_dir) == list(range(50))
