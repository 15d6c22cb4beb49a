"""What had happened between the last row of metrics and the checkpoint is in a resumed run's first row."""

import json
import math
import time
from dataclasses import asdict

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import gymnasium
from whole_run import SMALL, rows_of

from drivetrain.train import resume, train
from drivetrain.train.config import TrainConfig
from drivetrain.train.episode import Episode
from drivetrain.train.ledger.ledger import Counts
from drivetrain.train.ledger.rules import START, Origin, Rules
from drivetrain.train.run_dir import saving
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from drivetrain.train.telemetry.metrics import Meter
from drivetrain.train.telemetry.unreported import FILE, Unreported

EPISODES = [Episode(0.1, 5), Episode(0.7, 3, 1.0), Episode(-2.3, 9, 0.0), Episode(1e9, 1)]


def test_a_row_of_sums_that_were_kept_is_that_of_all_of_it(tmp_path):
    whole, before = Unreported(), Unreported()
    whole.add_episodes(EPISODES)
    whole.add_lags([3, 0, 4])
    before.add_episodes(EPISODES[:2])
    before.add_lags([3])
    before.keep(tmp_path, 700)
    after = Unreported.kept(tmp_path, 700)
    after.add_episodes(EPISODES[2:])
    after.add_lags([0, 4])
    assert after.row() == whole.row()
    assert whole.row() == {
        "episode_return": sum(episode.total_reward for episode in EPISODES) / 4,
        "episode_length": 4.5,
        "success_rate": 0.5,
        "weight_lag": 7 / 3,
        "weight_lag_max": 4,
    }


WHOLE = json.dumps({"num_steps": 700, **asdict(Unreported())})
DAMAGED = ["", "[]", "{", "7", "[" * 100_000, WHOLE.replace('"num_lags": 0', '"num_lags": 1e999')]


@pytest.mark.parametrize(
    "content",
    [None, *DAMAGED, '{"num_steps": 700}', '{"num_steps": 800, "num_lags": 1}'],
    ids=lambda text: str(text)[:9],
)
def test_what_is_of_another_checkpoint_or_damaged_counts_for_nothing(tmp_path, content):
    if content is not None:
        (tmp_path / FILE).write_text(content)
    assert Unreported.kept(tmp_path, 700) == Unreported()
    assert all(math.isnan(value) for value in Unreported().row().values())


def meter_of(algo, interval_steps, **settings):
    config = TrainConfig.default(algo, "E").override(**settings)
    return Meter(Rules.of(config), interval_steps, START, Unreported())


def test_what_rows_have_told_is_kept_for_nobody(tmp_path):
    meter = meter_of("dqn", 100, total_steps=1_000)
    meter.add_episodes(EPISODES, 80)
    meter.mark(90)
    meter.keep(tmp_path, is_written=True)
    assert Unreported.kept(tmp_path, 90).num_episodes == 4
    meter.row(Counts(120, 120, 0))
    meter.add_episodes(EPISODES, 120)
    meter.mark(110)
    meter.keep(tmp_path, is_written=True)
    assert Unreported.kept(tmp_path, 110).num_episodes == 4, "its row of step 120 is cut when the run goes on from 110"
    meter.mark(200)
    meter.keep(tmp_path, is_written=True)
    assert Unreported.kept(tmp_path, 200).num_episodes == 4
    meter.row(Counts(200, 200, 0))
    meter.keep_no_more_than_rows_lack(tmp_path)
    assert not (tmp_path / FILE).exists()


def test_what_happens_while_a_checkpoint_is_written_is_not_kept_with_it_and_what_rows_tell_meanwhile_is(tmp_path):
    meter = meter_of("dqn", 100, total_steps=1_000)
    meter.add_episodes(EPISODES[:1], 90)
    meter.mark(90)
    meter.add_episodes(EPISODES[1:], 100)
    meter.row(Counts(120, 120, 0))
    meter.add_episodes(EPISODES, 130)
    meter.keep(tmp_path)
    assert Unreported.kept(tmp_path, 90).num_episodes == 1


def test_a_run_that_goes_on_from_its_very_end_tells_in_a_row_what_a_kill_has_kept_from_one():
    end, origin = Counts(1_000, 1_000, 400), Origin(num_steps=1_000, num_updates=400)
    meter = Meter(Rules.of(TrainConfig.default("dqn", "E")), 100, origin, Unreported())
    assert not meter.has_news(end)
    meter.add_episodes(EPISODES, 1_000)
    assert meter.has_news(end)
    assert meter.row(end)["episode_length"] == 4.5
    assert not meter.has_news(end)


def test_of_a_rollout_that_is_gathered_again_nothing_is_kept(tmp_path):
    meter = meter_of("ppo", 1_000, num_envs=4, rollout_length=16, batch_size=64)
    meter.add_episodes(EPISODES[:1], 64)
    meter.mark(64)
    meter.add_episodes(EPISODES[1:], 128)
    meter.keep(tmp_path)
    assert Unreported.kept(tmp_path, 64).num_episodes == 1


def test_what_had_happened_at_a_checkpoint_is_still_known_after_one_that_could_not_be_written(tmp_path, monkeypatch):
    known = []

    def at_the_checkpoint():
        return Unreported.kept(tmp_path, load_checkpoint(tmp_path)[1]["num_steps"])

    def full(*_, **__):
        known.append(at_the_checkpoint())
        raise OSError(28, "No space left on device")

    def fill_the_disk(event):
        if event.kind == "checkpoint":
            monkeypatch.setattr(saving, "save_checkpoint", full)
        if len(known) >= 2:
            raise Mistake

    settings = {**SMALL, "num_actors": 0, "log_interval_steps": 10_000, "checkpoint_interval_s": 1e-6}
    settings |= {"eval_interval_steps": 220}
    with pytest.raises(Mistake):
        train("dqn", "CartPole-v1", run_dir=str(tmp_path), callbacks=[fill_the_disk], **settings)
    assert Unreported() != known[0] == known[-1] == at_the_checkpoint()


class FiveSteps(gymnasium.Env):
    """Episodes of five steps, with a reward of 1 each as long as a file is not there."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, flag, step_s=0.0):
        self._flag, self._step_s = flag, step_s

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._num_steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        time.sleep(self._step_s)
        self._num_steps += 1
        return np.zeros(2, np.float32), float(not self._flag.exists()), self._num_steps == 5, False, {}


class Mistake(Exception):
    """What ends a run of these tests."""


SETTINGS = {
    "dqn": SMALL,
    "ppo": {"num_envs": 4, "rollout_length": 20, "batch_size": 40, "hidden": (16,), "eval_interval_steps": 500}
    | {"eval_episodes": 2, "final_eval_episodes": 3},
}


@pytest.mark.parametrize(
    ("algo", "num_actors"),
    [("dqn", 0), pytest.param("dqn", 1, marks=pytest.mark.whole), pytest.param("ppo", 0, marks=pytest.mark.whole)],
)
def test_episodes_before_an_interruption_are_in_the_first_row_after_it(tmp_path, algo, num_actors):
    flag = tmp_path / "flag"

    def make():
        return FiveSteps(flag)

    def interrupt(event):
        if event.kind == "evaluation" and event.row["num_steps"] >= 500:
            raise Mistake

    settings = {**SETTINGS[algo], "log_interval_steps": 1_000, "num_actors": num_actors}
    settings["run_dir"] = str(tmp_path / "run")
    with pytest.raises(Mistake):
        train(algo, make, total_steps=1_000, callbacks=[interrupt], **settings)
    reached = max(row["num_steps"] for row in rows_of(tmp_path / "run") if "checkpoint_nbytes" in row)
    assert 480 <= reached < 1_000, "a rollout of 80 that is not whole does not count"
    flag.touch()
    resume(tmp_path / "run", env=make)
    (row,) = (row for row in rows_of(tmp_path / "run") if "episode_return" in row)
    # An episode of 5 comes to 1 per step before, and to 0 after; those that were open at either end are not counted.
    assert row["episode_length"] == 5
    assert row["episode_return"] == pytest.approx(5 * reached / 1_000, abs=0.2)
    assert not (tmp_path / "run" / FILE).exists()


@pytest.mark.whole
def test_steps_that_an_actor_is_at_as_a_run_is_stopped_count_no_more_and_all_episodes_before_do(tmp_path):
    flag = tmp_path / "flag"

    class Slow(FiveSteps):
        def step(self, action):
            time.sleep(0.7 if self._flag.exists() else 0.002)
            return super().step(action)

    def interrupt(event):
        if event.kind == "evaluation":
            flag.touch()
            time.sleep(0.1)  # the actor is at a step that ends when the checkpoint is written
            raise Mistake

    settings = {**SMALL, "envs_per_actor": 1, "log_interval_steps": 1_000, "eval_interval_steps": 70}
    settings |= {"num_actors": 1, "total_steps": 1_000, "run_dir": str(tmp_path / "run")}
    with pytest.raises(Mistake):
        train("dqn", lambda: Slow(flag), callbacks=[interrupt], **settings)
    reached = load_checkpoint(tmp_path / "run")[1]["num_steps"]
    assert 70 <= reached < 1_000
    assert Unreported.kept(tmp_path / "run", reached).num_episodes == reached // 5


@pytest.mark.whole
def test_episodes_of_a_rollout_that_the_end_of_a_run_of_processes_has_cut_are_not_counted(tmp_path):
    def make():
        return FiveSteps(tmp_path / "flag", step_s=0.002)

    def interrupt(event):
        if event.kind == "checkpoint":  # the first, beside the updates of the first rollout; the second is under way
            time.sleep(0.3)
            raise Mistake

    rollouts = {"num_envs": 1, "rollout_length": 300, "batch_size": 300, "num_epochs": 1, "hidden": (8,)}
    settings = {**rollouts, "log_interval_steps": 10_000, "total_steps": 10_000, "eval_interval_steps": 100_000}
    with pytest.raises(Mistake):
        train("ppo", make, num_actors=1, callbacks=[interrupt], run_dir=str(tmp_path / "run"), **settings)
    reached = load_checkpoint(tmp_path / "run")[1]["num_steps"]
    assert reached % 300 == 0
    assert Unreported.kept(tmp_path / "run", reached).num_episodes == reached // 5


@pytest.mark.whole
def test_a_checkpoint_of_rollouts_that_processes_gather_keeps_no_episode_of_the_next_one(tmp_path):
    def make():
        return FiveSteps(tmp_path / "flag", step_s=0.002)

    def look(event):
        if event.kind == "checkpoint":
            kept.append((event.num_steps, Unreported.kept(tmp_path / "run", event.num_steps).num_episodes))

    kept = []
    rollouts = {"num_envs": 2, "rollout_length": 50, "batch_size": 100, "num_epochs": 1, "hidden": (8,)}
    settings = {**rollouts, "log_interval_steps": 10_000, "total_steps": 500, "eval_interval_steps": 100_000}
    settings |= {"checkpoint_interval_s": 1e-6, "eval_episodes": 1, "final_eval_episodes": 1}
    train("ppo", make, num_actors=2, callbacks=[look], run_dir=str(tmp_path / "run"), **settings)
    assert len(kept) > 3
    assert all(num_episodes <= num_steps // 5 for num_steps, num_episodes in kept)
    assert any(num_episodes for _, num_episodes in kept)
