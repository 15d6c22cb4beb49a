"""Rollouts: what is written where, who waits for whom, and whole runs of PPO."""

import contextlib
import json
import os
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from gymnasium.envs.classic_control import CartPoleEnv
from whole_run import rows_without_times

from drivetrain.core.errors import InvalidInput
from drivetrain.train import resume, train
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.presets import preset
from drivetrain.train.experience.rollout import RolloutBuffer
from drivetrain.train.interface import BoxActions, DiscreteActions, Interface, Vector
from drivetrain.train.ledger.ledger import Ledger
from drivetrain.train.ledger.rules import Rules
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from drivetrain.train.runs.resuming import origin_of

DISCRETE = Interface(observations=Vector(shape=(2,)), actions=DiscreteActions(count=3, start=0))
CONTINUOUS = Interface(
    observations=Vector(shape=(2,)), actions=BoxActions(low=(-1.0,), high=(1.0,), shape=(1,), dtype="float32")
)
SMALL = {
    "num_envs": 4, "rollout_length": 16, "batch_size": 16, "num_epochs": 2, "hidden": (16,), "total_steps": 1_000,
    "eval_interval_steps": 500, "eval_episodes": 2, "final_eval_episodes": 3, "log_interval_steps": 250,
}  # fmt: skip
FLAGS = [
    "--num-envs", "4", "--rollout-length", "64", "--batch-size", "64", "--hidden", "16", "--eval-episodes", "2",
    "--final-eval-episodes", "3", "--num-actors", "2",
]  # fmt: skip
PPO = ("ppo", "CartPole-v1")
NORMALISED = {"normalize_observations": True, "normalize_rewards": True}


def config_of(**settings):
    return TrainConfig.default("ppo", "CartPole-v1").override(**SMALL | settings)


def step(number, *, truncated=(False, False), action=(1, 2)):
    """One step of two environments, told apart by its number."""
    return {
        "obs": np.full((2, 2), number, np.float32), "action": np.array(action), "reward": np.full(2, 10.0 * number),
        "next_obs": np.full((2, 2), 100 + number, np.float32), "terminated": np.zeros(2, bool),
        "truncated": np.array(truncated),
    }  # fmt: skip


def test_an_actor_writes_its_columns_and_begins_the_next_rollout_after_the_last_row():
    config = config_of(num_actors=2, rollout_length=3, batch_size=6)
    buffer = RolloutBuffer.create(config, DISCRETE, shared=False)
    writer = buffer.writer(1, 2)
    for number in range(4):
        writer.add(**step(number))
    obs, reward = buffer.rollout.obs, buffer.rollout.reward
    assert obs.shape == (3, 4, 2)
    assert obs[:, 2:, 0].tolist() == [[3.0, 3.0], [1.0, 1.0], [2.0, 2.0]]
    assert reward[:, 3].tolist() == [30.0, 10.0, 20.0]
    assert not obs[:, :2].any(), "the other actor's"
    assert buffer.rollout.action.dtype == np.int32


def test_the_true_next_observation_is_kept_where_an_episode_is_cut_off_and_in_the_last_row():
    config = config_of(num_actors=1, num_envs=2, rollout_length=3, batch_size=6)
    buffer = RolloutBuffer.create(config, CONTINUOUS, shared=False)
    writer = buffer.writer(0, 2)
    for number, truncated in enumerate([(False, False), (True, False), (False, False)]):
        writer.add(**step(number, truncated=truncated, action=([0.5], [-0.5])))
    last = buffer.rollout.last_obs[..., 0]
    assert last[1, 0] == 101.0
    assert last[2].tolist() == [102.0, 102.0]
    assert buffer.rollout.action[..., 0].tolist() == [[0.5, -0.5]] * 3


def test_processes_see_one_rollout_through_its_handle():
    config = config_of(num_actors=2)
    buffer = RolloutBuffer.create(config, DISCRETE, shared=True)
    view = RolloutBuffer.attach(buffer.handle(), config, DISCRETE)
    view.writer(0, 2).add(**step(7))
    assert buffer.rollout.obs[0, :2].tolist() == [[7.0, 7.0]] * 2
    view.close()
    buffer.close()


def make_ledger(num_actors=2, **settings):
    config = config_of(num_actors=num_actors, total_steps=192, **settings)
    return Ledger.create(Rules.of(config), num_actors), config


def test_an_actor_gets_its_part_of_the_next_rollout_only_after_the_updates_of_the_last():
    ledger, config = make_ledger()
    part = config.steps_per_grant
    assert part == 32
    assert ledger.acquire(0, part) == (0, part)
    ledger.commit(0, part)
    waiting = threading.Thread(target=lambda: got.append(ledger.acquire(0, part)))
    got = []
    waiting.start()
    assert ledger.acquire(1, part) == (0, part)  # the same rollout, whoever was first
    waiting.join(0.3)
    assert waiting.is_alive(), "granted before the rollout is complete"
    ledger.commit(1, part)
    assert ledger.wait_for_updates() == config.updates_per_rollout == 8
    waiting.join(0.3)
    assert waiting.is_alive(), "granted before the updates"
    ledger.complete(8)
    waiting.join(60)
    assert got == [(64, part)]
    ledger.close()


def test_a_rollout_that_one_actor_has_begun_is_made_whole_before_an_early_end():
    ledger, config = make_ledger()
    part = config.steps_per_grant
    ledger.acquire(0, part)
    assert ledger.end_early() == 2 * part, "one part is granted, and the other one is still to come"
    ledger.commit(0, part)
    assert ledger.acquire(1, part) == (0, part)
    ledger.commit(1, part)
    ledger.complete(ledger.wait_for_updates())
    assert [ledger.acquire(actor, part) for actor in (0, 1)] == [None, None]
    assert ledger.wait_for_updates() == 0
    assert ledger.counts() == (64, 64, 8)
    ledger.close()


def test_the_part_of_a_dead_actor_is_granted_again_and_the_learner_waits_for_it():
    ledger, config = make_ledger()
    part = config.steps_per_grant
    for actor in (0, 1):
        ledger.acquire(actor, part)
    ledger.commit(0, part)
    assert ledger.give_back(1) == part
    counts = ledger.counts()
    assert (counts.committed, counts.updates) == (part, 0)
    assert ledger.rules.takeable(counts.committed, 0) == 0
    assert ledger.acquire(1, part) == (0, part)
    ledger.commit(1, part)
    assert ledger.wait_for_updates() == 8
    ledger.close()


def test_a_run_takes_whole_rollouts_and_calls_for_all_their_updates():
    config = config_of(total_steps=1_000, num_actors=1)
    assert config.total_steps == 16 * 64
    rules = Rules.of(config)
    assert [rules.due(steps) for steps in (63, 64, 127, 1_024)] == [0, 8, 8, 128]
    assert config.resolved().run.total_steps == 1_024
    assert json.loads(config.to_json())["run"]["total_steps"] == 1_024


def test_the_number_of_actors_does_not_change_the_algorithm():
    for num_actors, envs_per_actor in ((0, 8), (1, 8), (2, 4), (8, 1)):
        config = preset("ppo", "CartPole-v1").override(num_actors=num_actors)
        assert config.envs_per_actor == envs_per_actor
        assert (config.steps_per_rollout, config.updates_per_rollout) == (256, 20)
    auto = preset("ppo", "CartPole-v1")
    assert 8 % auto.num_actors == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_actors": 3}, "num_envs: expected as many environments for every actor, got 4 for 3"),
        ({"num_actors": 2, "envs_per_actor": 4}, "got 4 for 2 actors of 4 environments each"),
        ({"batch_size": 24}, "batch_size: expected a divisor of the rollout, 64 steps .* got 24"),
        ({"num_learners": 3}, r"num_learners: expected a divisor of batch_size \(\d+\), got 3"),
        ({"capacity": 100}, "unknown setting 'capacity' for ppo"),
        ({"batch_size": 1}, "batch_size: expected at least 2 where advantages are normalised"),
        ({"gae_lambda": 1.5}, "gae_lambda: expected in 0..1"),
        ({"target_kl": 0.0}, "target_kl: expected above 0, or None"),
    ],
)
def test_settings_that_do_not_fit_are_refused_in_a_sentence(settings, message):
    with pytest.raises(InvalidInput, match=message):
        config_of(**settings)


def test_a_configuration_holds_the_parts_of_its_algorithm_and_comes_back(tmp_path):
    config = config_of(num_actors=2, target_kl=0.02).resolved()
    path = tmp_path / "config.json"
    path.write_text(config.to_json())
    assert set(json.loads(path.read_text())) == {"algo", "env", "run", "environment", "rollout", "agent", "simulator"}
    assert TrainConfig.load(path) == config


@pytest.mark.release
@pytest.mark.parametrize(("env", "normalised"), [("CartPole-v1", {}), ("Pendulum-v1", NORMALISED)])
def test_sequential_runs_of_a_seed_are_equal_to_the_last_bit_and_so_is_one_actor(tmp_path, env, normalised):
    settings = {**SMALL, "eval_max_steps": 50, "seed": 3, **normalised}
    results = [
        train("ppo", env, run_dir=str(tmp_path / name), num_actors=num_actors, **settings)
        for name, num_actors in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert {(result.num_steps, result.num_updates) for result in results} == {(1_024, 128)}
    arrays = [load_checkpoint(result.run_dir)[0] for result in results]
    for other in arrays[1:]:
        assert all(arrays[0][name].tobytes() == other[name].tobytes() for name in arrays[0])
    assert rows_without_times(tmp_path / "a") == rows_without_times(tmp_path / "b")
    last = [row for row in rows_without_times(tmp_path / "a") if "policy_loss" in row][-1]
    told = {"policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "explained_variance", "loss"}
    assert told <= set(last)


@pytest.mark.whole
def test_a_run_with_two_actors_finishes_exactly_and_never_acts_on_old_weights(tmp_path):
    result = train("ppo", "CartPole-v1", run_dir=str(tmp_path), num_actors=2, **SMALL)
    assert (result.num_steps, result.num_updates) == (1_024, 128)
    rows = rows_without_times(tmp_path)
    assert max(row.get("weight_lag_max", 0) for row in rows) == 0
    assert any("eval_return" in row for row in rows)


@pytest.mark.release
@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("Many", {}),
        ("Oblong", {"num_actors": 2}),
        ("Nested", NORMALISED),
        pytest.param("Gray", {"frame_stack": 2}, marks=pytest.mark.slow),
    ],
)
def test_every_kind_of_action_and_observation_can_be_learned_from(tmp_path, env, settings):
    small = {"num_actors": 0, "num_envs": 2, "rollout_length": 8, "batch_size": 8, "total_steps": 64, "hidden": (8,)}
    small["eval_max_steps"] = 10
    result = train("ppo", f"strange_envs:{env}-v0", run_dir=str(tmp_path), **{**SMALL, **small, **settings})
    assert (result.num_steps, result.num_updates) == (64, 16)
    assert np.isfinite(result.returns).all()


@pytest.mark.release
@pytest.mark.parametrize("num_actors", [0, 2])
def test_a_run_goes_on_from_its_checkpoint_with_whole_rollouts(tmp_path, num_actors):
    first = train("ppo", "CartPole-v1", run_dir=str(tmp_path), num_actors=num_actors, **SMALL, **NORMALISED)
    before, _ = load_checkpoint(tmp_path)
    result = resume(tmp_path, total_steps=1_400)
    assert (first.num_steps, result.num_steps, result.num_updates) == (1_024, 1_408, 8 * 22)
    after, meta = load_checkpoint(tmp_path)
    assert (meta["num_steps"], meta["num_updates"], meta["num_resumes"]) == (1_408, 176, 1)
    assert not np.array_equal(before["params"], after["params"])
    assert (before["moments"][:, 0].sum(), after["moments"][:, 0].sum()) == (1_024, 1_408), "all steps, each once"


@pytest.mark.whole
@pytest.mark.parametrize("num_actors", [0, 2])
def test_steps_of_a_rollout_that_an_interrupt_has_cut_count_once(tmp_path, num_actors):
    caller, mark = os.getpid(), tmp_path / "interrupted"

    class Interrupting(CartPoleEnv):
        num_steps = 0

        def step(self, action):
            Interrupting.num_steps += 1  # of all environments in a process
            if Interrupting.num_steps == 135:  # in the third rollout, or the fifth
                with contextlib.suppress(FileExistsError):
                    mark.touch(exist_ok=False)
                    os.kill(caller, signal.SIGINT)
                    time.sleep(0.5)  # until everybody is told
            return super().step(action)

    run_dir = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train("ppo", Interrupting, run_dir=str(run_dir), num_actors=num_actors, **SMALL, **NORMALISED)
    arrays, meta = load_checkpoint(run_dir)
    assert meta["num_steps"] == meta["num_updates"] * 8 == (256 if num_actors else 128)
    assert arrays["moments"][:, 0].sum() == meta["num_steps"]
    resume(run_dir, env=Interrupting)
    arrays, meta = load_checkpoint(run_dir)
    assert arrays["moments"][:, 0].sum() == meta["num_steps"] == 1_024


def test_steps_of_a_rollout_that_nothing_was_learned_from_are_taken_again(tmp_path):
    config = config_of(num_actors=2).resolved()
    meta = {"num_steps": 3 * 64 + 32, "num_updates": 3 * 8, "num_resumes": 0, "elapsed_s": 1.0, "learning_s": 1.0}
    origin = origin_of(tmp_path, config, meta)
    assert (origin.num_steps, origin.num_updates) == (3 * 64, 3 * 8)
    ledger = Ledger.create(Rules.of(config, origin), 2, origin)
    assert ledger.acquire(1, 32) == (192, 32)
    ledger.close()


@pytest.mark.release
def test_an_actor_killed_in_the_middle_of_a_rollout_is_replaced_and_the_run_finishes_exactly(start):
    run = start(*FLAGS, "--total-steps", "40000", what=PPO)
    run.wait_until_learning()
    (pid,) = run.children("actor-1")
    os.kill(pid, signal.SIGKILL)
    code, out, err = run.end()
    assert code == 0, err
    assert "actor 1 was killed by SIGKILL" in err
    _, meta = load_checkpoint(run.run_dir)
    assert (meta["num_steps"], meta["num_updates"]) == (40_192, 157 * 4 * 20)
    assert "environment steps/s" in out
    assert "per step" not in out, "no ratio is set on-policy"


@pytest.mark.release
def test_a_killed_learner_ends_the_run_with_a_usable_checkpoint(start):
    run = start(*FLAGS, "--total-steps", "100000000", what=PPO)
    run.wait_until_learning()
    (pid,) = run.children("learner")
    os.kill(pid, signal.SIGKILL)
    code, _, err = run.end()
    assert code == 1
    assert "the learner was killed by SIGKILL" in err
    assert load_checkpoint(run.run_dir)[0]["params"].size > 0


@pytest.mark.release
def test_an_interrupted_run_drains_and_saves(start):
    run = start(*FLAGS, "--total-steps", "100000000", what=PPO)
    run.wait_until_learning()
    run.process.send_signal(signal.SIGINT)
    code, _, err = run.end()
    assert code == 130, err
    assert load_checkpoint(run.run_dir)[1]["num_updates"] > 0
