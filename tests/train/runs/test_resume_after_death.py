"""Whole runs that are killed, of a process or of all, and taken up again: they end as if nothing had happened."""

import csv
import json
import os
import signal

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from tensorboard_rows import scalars
from whole_run import ENDLESS, FLAGS, read, rows_of

from drivetrain.train.run_dir.checkpoint import load_replay

pytestmark = pytest.mark.whole

OFTEN = ["--checkpoint-interval-s", "0.2", "--log-interval-steps", "200"]


def checkpoint_of(run_dir):
    manifest = read(run_dir / "checkpoint" / "manifest.json")
    return json.loads(manifest) if manifest else {"num_updates": 0, "num_steps": 0, "generation": 0}


@pytest.mark.parametrize("num_actors", ["2", "0"])
def test_a_run_killed_with_all_its_processes_goes_on_and_ends_exactly(start, num_actors):
    table_and_normalised = ["--csv", "--normalize-observations"]
    flags = [*FLAGS, *OFTEN, "--num-actors", num_actors, "--eval-interval-steps", "500", *table_and_normalised]
    run = start(*flags, "--total-steps", "100000000")
    run.wait_until(lambda: checkpoint_of(run.run_dir)["generation"] >= 2 and len(rows_of(run.run_dir)) > 5)
    run.kill_all()
    meta = checkpoint_of(run.run_dir)
    before = rows_of(run.run_dir)
    with load_replay(run.run_dir, shared=False) as replay:
        assert len(replay) > 150
    total = meta["num_steps"] + 1_500
    resumed = start("--total-steps", str(total), resume=True)
    code, out, err = resumed.end()
    assert code == 0, err
    assert f"resumed at step {meta['num_steps']:,} of {total:,}, after {meta['num_updates']:,} updates" in out
    assert "0.5000 updates per step" in out
    last = checkpoint_of(run.run_dir)
    assert (last["num_steps"], last["num_updates"]) == (total, (total - 200) // 2)
    assert last["elapsed_s"] > meta["elapsed_s"]
    rows = rows_of(run.run_dir)
    kept = [row for row in before if row["num_steps"] <= meta["num_steps"]]
    assert rows[: len(kept)] == kept, "what was before the checkpoint is kept, and nothing else"
    assert all(row["num_steps"] >= meta["num_steps"] for row in rows[len(kept) :])
    walls = [row["wall_s"] for row in rows if "wall_s" in row]
    assert walls == sorted(walls), "the time the run has taken goes on"
    counts = {row["num_steps"]: row["num_updates"] for row in rows}
    assert scalars(run.run_dir / "tensorboard", "num_updates") == counts
    with (run.run_dir / "metrics.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(int(line["num_steps"]), int(line["num_updates"])) for line in lines] == [
        (row["num_steps"], row["num_updates"]) for row in rows
    ]


def test_a_replay_that_was_not_kept_is_filled_again_and_the_counts_still_come_out(start):
    run = start(*FLAGS, *OFTEN, "--no-save-replay", "--total-steps", "100000000")
    run.wait_until(lambda: checkpoint_of(run.run_dir)["generation"] >= 2)
    run.kill_all()
    meta = checkpoint_of(run.run_dir)
    assert "replay" not in meta["files"]
    total = meta["num_steps"] + 2_000
    code, out, err = start("--total-steps", str(total), resume=True).end()
    assert code == 0, err
    refilled = meta["num_steps"] + 200
    assert f"the checkpoint has no replay: nothing is learned before step {refilled:,}" in out
    last = checkpoint_of(run.run_dir)
    assert (last["num_steps"], last["num_updates"]) == (total, (total - 200) // 2)
    learning = [row for row in rows_of(run.run_dir) if row["num_steps"] > meta["num_steps"] and "update_ratio" in row]
    assert all(row["num_updates"] == meta["num_updates"] for row in learning if row["num_steps"] < refilled)


@pytest.mark.parametrize("role", ["learner", "supervisor", "interrupt"])
def test_a_run_goes_on_after_its_learner_or_supervisor_died_or_after_ctrl_c(start, role):
    run = start(*ENDLESS, *OFTEN)
    run.wait_until(lambda: checkpoint_of(run.run_dir)["num_steps"] > 0)
    if role == "interrupt":
        run.process.send_signal(signal.SIGINT)
    else:
        os.kill(*run.children("learner") if role == "learner" else [run.process.pid], signal.SIGKILL)
    code, _, _ = run.process.wait(180), *run.process.communicate()
    assert code == {"learner": 1, "supervisor": -9, "interrupt": 130}[role]
    total = checkpoint_of(run.run_dir)["num_steps"] + 500
    code, _, err = start("--total-steps", str(total), resume=True).end()
    assert code == 0, err
    assert checkpoint_of(run.run_dir)["num_updates"] == (total - 200) // 2
