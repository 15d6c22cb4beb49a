"""Rows of runs with processes are those of the run without, where the updates are the same."""

import os
import signal
import sys
import time

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from gymnasium.envs.classic_control import CartPoleEnv
from whole_run import ENDLESS, rows_of

from drivetrain.train import train
from drivetrain.train.run_dir.checkpoint import load_checkpoint

PPO = {
    "num_envs": 4, "rollout_length": 8, "batch_size": 32, "num_epochs": 1, "hidden": (8,), "total_steps": 32 * 30,
    "log_interval_steps": 32, "eval_episodes": 1, "final_eval_episodes": 1, "eval_max_steps": 5,
    "eval_interval_steps": 100_000, "time_report": False, "checkpoint_interval_s": 1_000.0,
}  # fmt: skip


@pytest.mark.release
def test_each_rollout_has_a_row_with_the_losses_of_its_own_updates(tmp_path):
    rows = []
    for num_actors in (0, 1):  # which learn the same, to the last bit
        train("ppo", "CartPole-v1", run_dir=str(tmp_path / str(num_actors)), num_actors=num_actors, **PPO)
        rows.append([row for row in rows_of(tmp_path / str(num_actors)) if "steps_per_s" in row])
    learned = [[(row["num_steps"], row["num_updates"], row["loss"]) for row in some] for some in rows]
    assert [steps for steps, *_ in learned[0]] == list(range(32, 32 * 31, 32))
    assert learned[1] == learned[0]
    assert all(0 < row["steps_per_s"] < 1e6 for row in rows[1])


@pytest.mark.release
def test_the_last_row_has_the_metrics_of_the_last_updates(tmp_path):
    settings = {"warmup_steps": 100, "batch_size": 8, "hidden": (8,), "num_step": 1, "total_steps": 400, "tolerance": 0,
                "updates_per_call": 1, "envs_per_actor": 1, "eval_episodes": 1, "final_eval_episodes": 1,
                "eval_max_steps": 5, "time_report": False, "log_interval_steps": 100_000, "num_actors": 1,
                "prioritized": False}  # fmt: skip
    train("dqn", "CartPole-v1", run_dir=str(tmp_path), **settings)
    last = [row for row in rows_of(tmp_path) if "steps_per_s" in row][-1]
    assert (last["num_steps"], last["num_updates"]) == (400, 150)
    assert "loss" in last


@pytest.mark.release
@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_the_last_row_has_the_last_episodes_however_late_an_actor_tells_of_them(tmp_path, algo):
    caller = os.getpid()

    class TellingLate(CartPoleEnv):
        """Episodes of ten steps, whose rewards are the number of the step; what follows the hundredth takes long."""

        def __init__(self):
            super().__init__()
            self.num_steps = 0
            roles = sys.modules.get("drivetrain.train.processes.roles.actor")
            if roles is not None and os.getpid() != caller:
                tell = roles.News.tell
                roles.News.tell = lambda news: (time.sleep(0.5 * (self.num_steps == 100)), tell(news))

        def step(self, action):
            obs, *_ = super().step(action)
            self.num_steps += 1
            return obs, float(self.num_steps), self.num_steps % 10 == 0, False, {}

    settings = {
        "dqn": {"warmup_steps": 50, "tolerance": 0, "batch_size": 8, "num_step": 1, "envs_per_actor": 1},
        "ppo": {"num_envs": 1, "rollout_length": 50, "batch_size": 50, "num_epochs": 1},
    }[algo]
    settings |= {"eval_max_steps": 5, "eval_episodes": 1, "final_eval_episodes": 1, "hidden": (8,), "num_actors": 1}
    settings |= {"total_steps": 100, "log_interval_steps": 100, "time_report": False, "run_dir": str(tmp_path)}
    train(algo, TellingLate, **settings)
    (row,) = [row for row in rows_of(tmp_path) if "steps_per_s" in row]
    assert (row["episode_return"], row["episode_length"]) == (sum(range(1, 101)) / 10, 10)


@pytest.mark.release
def test_no_row_is_of_steps_that_end_after_the_last_checkpoint_of_a_stopped_run(start, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    alone = ["--num-actors", "1", "--envs-per-actor", "1", "--batch-size", "4", "--warmup-steps", "8"]
    alone += ["--updates-per-call", "1"]  # else the first 32 are waited for
    run = start(*ENDLESS, *alone, "--log-interval-steps", "1", what=("dqn", "strange_envs:Slower-v0"))
    run.wait_until_learning()
    run.process.send_signal(signal.SIGINT)  # the last checkpoint is there before the step that is being taken ends
    assert run.end()[0] == 130
    assert load_checkpoint(run.run_dir)[1]["num_steps"] >= rows_of(run.run_dir)[-1]["num_steps"] > 8
