"""A checkpoint is written when it is due, also where no update is: a run that is killed goes on from there."""

import json
import os
import signal
import time

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from gymnasium.envs.classic_control import CartPoleEnv

from drivetrain.train import load_policy, resume, train
from drivetrain.train.learner.learner import Learner
from drivetrain.train.run_dir import saving
from drivetrain.train.run_dir.checkpoint import load_checkpoint

WARMUP = 100
SMALL = {
    "hidden": (4,), "batch_size": 8, "capacity": 200, "warmup_steps": WARMUP, "total_steps": 120, "eval_episodes": 1,
    "final_eval_episodes": 1, "eval_max_steps": 10, "time_report": False, "checkpoint_interval_s": 1e-6,
}  # fmt: skip


class Slow(CartPoleEnv):
    """A hundredth of a second for a step, so that a run takes as long as a learner waits before it looks."""

    def step(self, action):
        time.sleep(0.01)
        return super().step(action)


def checkpoints(run_dir):
    """Steps and updates of each."""
    rows = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    return [(row["num_steps"], row["num_updates"]) for row in rows if "checkpoint_nbytes" in row]


@pytest.mark.parametrize("update_ratio", [0, "1/15"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_a_run_in_turns_writes_them_from_the_end_of_warm_up_on(tmp_path, update_ratio, deterministic):
    how = {"num_actors": 0, "envs_per_actor": 1, "deterministic": deterministic, "update_ratio": update_ratio}
    train("dqn", "CartPole-v1", run_dir=tmp_path / "run", **how, **SMALL)
    found = checkpoints(tmp_path / "run")
    assert found[0] == (WARMUP, 0)
    assert len(found) > 5, "and not at updates alone, of which there is one, or none"


def test_one_that_there_is_no_memory_for_is_told_and_the_run_goes_on(tmp_path, monkeypatch, capsys):
    save, calls = saving.save_checkpoint, []

    def refused_once(*given, **named):
        calls.append(given)
        if len(calls) == 2:
            raise MemoryError
        return save(*given, **named)

    monkeypatch.setattr(saving, "save_checkpoint", refused_once)
    how = {"num_actors": 0, "envs_per_actor": 1}
    assert train("dqn", "CartPole-v1", run_dir=tmp_path / "run", **how, **SMALL).num_steps == 120
    assert (
        "cannot be written: not enough memory; the one before is whole, and the run goes on" in capsys.readouterr().err
    )
    assert load_checkpoint(tmp_path / "run")[1]["num_steps"] == 120


def test_one_beside_a_manifest_that_somebody_has_damaged_is_told_and_the_run_goes_on(tmp_path, capsys):
    manifest = tmp_path / "run" / "checkpoint" / "manifest.json"

    def damage(event):
        if event.kind == "checkpoint":
            manifest.write_text("{")

    how = {"num_actors": 0, "envs_per_actor": 1}
    result = train("dqn", "CartPole-v1", run_dir=tmp_path / "run", callbacks=[damage], **how, **SMALL)
    assert (result.num_steps, result.checkpoint_nbytes) == (120, 0)
    assert f"{manifest}: damaged" in (said := capsys.readouterr().err)
    assert "none is written until that is mended, and the run goes on" in said


@pytest.mark.whole
@pytest.mark.parametrize("deterministic", [False, True])
def test_processes_write_them_too_and_the_policy_of_one_can_be_played(tmp_path, deterministic):
    played = []

    def play(event):
        steps = event.row["num_steps"]  # a run in lockstep writes one at each of 300
        if "checkpoint_nbytes" in event.row and (not played or steps >= played[-1] + 50 or steps == 400):
            played.append(load_policy(tmp_path / "run", "last", env=Slow).num_steps)

    how = {"num_actors": 1, "envs_per_actor": 1, "deterministic": deterministic, "update_ratio": 0}
    train("dqn", Slow, run_dir=tmp_path / "run", callbacks=[play], **how, **{**SMALL, "total_steps": 400})
    found = checkpoints(tmp_path / "run")
    assert len(found) >= 2
    assert WARMUP <= found[0][0] < 400
    assert found[0][1] == 0
    assert found[-1][0] == 400
    assert played[-1] == 400


@pytest.mark.whole
@pytest.mark.parametrize("num_actors", [0, 1])
def test_a_rollout_that_is_not_learned_from_is_in_none(tmp_path, num_actors):
    rollouts = {"num_envs": 2, "rollout_length": 10, "batch_size": 10, "num_epochs": 1, "num_actors": num_actors}
    settings = {name: value for name, value in SMALL.items() if name not in ("capacity", "warmup_steps")}
    train("ppo", "CartPole-v1", run_dir=tmp_path / "run", **settings | rollouts)
    found = checkpoints(tmp_path / "run")
    assert {num_steps % 20 for num_steps, _ in found} == {0}
    assert found[-1] == (120, 12)
    assert all(num_updates == num_steps // 10 > 0 for num_steps, num_updates in found)


@pytest.mark.whole
@pytest.mark.parametrize("algo", ["dqn", "sac"])
def test_an_interrupt_among_many_updates_that_are_owed_is_not_kept_waiting_for_them(tmp_path, monkeypatch, algo):
    finished, finish = [], Learner.finish

    def interrupted(learner, experience):
        finish(learner, experience)
        finished.append(learner)
        if len(finished) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    env = {"dqn": "CartPole-v1", "sac": "Pendulum-v1"}[algo]
    settings = {**SMALL, "total_steps": 110, "checkpoint_interval_s": 1e3, "num_actors": 0, "envs_per_actor": 1}
    settings |= {"update_ratio": 100, "updates_per_call": 5}
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(algo, env, run_dir=str(tmp_path), **settings)
    meta = load_checkpoint(tmp_path)[1]
    assert meta["num_steps"] == WARMUP + 1
    assert 15 <= meta["num_updates"] <= 30, "of a hundred"
    assert resume(tmp_path).num_updates == 1_000
