"""Our own side of the comparison: the same work as the peers', policies caught on the way."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from drivetrain.bench.train.evaluation import chooser
from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers import ours_continuous
from drivetrain.bench.train.peers.entry import Target
from drivetrain.bench.train.peers.ours_dqn import RUN_DIR, overrides
from drivetrain.bench.train.peers.snapshots import Snapshots
from drivetrain.bench.train.plan import SETTINGS
from drivetrain.bench.train.settings import DqnSettings
from drivetrain.bench.train.stopwatch import Stopwatch
from drivetrain.train.config.presets import preset
from drivetrain.train.ledger.rules import Rules
from drivetrain.train.networks.network import initial_vector
from drivetrain.train.policies.policy import make_policy, policy_network
from drivetrain.train.run_dir.checkpoint import save_checkpoint
from drivetrain.train.runs.requirements import describe

JOB = Job(kind="fixed", env="CartPole-v1", seed=1, total_steps=50_000, settings=DqnSettings())


@pytest.mark.parametrize("num_actors", [0, 1, None])
@pytest.mark.parametrize("total_steps", [2_000, 50_000])
def test_our_settings_ask_for_exactly_the_steps_and_updates_of_the_peers(num_actors, total_steps):
    job = replace(JOB, num_actors=num_actors, total_steps=total_steps)
    config = preset("dqn", job.env).override(**overrides(job))
    rules = Rules.of(config)
    assert rules.total_steps == DqnSettings().num_steps(total_steps)
    assert rules.due(rules.total_steps) == DqnSettings().num_updates(total_steps)
    assert (config.agent.double, config.agent.dueling, config.replay.prioritized) == (False, False, False)
    assert (config.replay.num_step, config.agent.target_tau, config.agent.target_interval) == (1, 1.0, 128)


def test_without_settings_our_defaults_run_as_they_are():
    job = replace(JOB, kind="target", settings=None, num_envs=None)
    config = preset("dqn", job.env).override(**overrides(job))
    default = preset("dqn", job.env).override(save_replay=False)
    assert (config.agent, config.updates, config.replay) == (default.agent, default.updates, default.replay)
    assert config.run.num_actors == default.run.num_actors
    assert config.envs_per_actor == default.envs_per_actor


def test_each_checkpoint_is_caught_once_with_its_time(tmp_path):
    watch = Stopwatch()
    snapshots = Snapshots(tmp_path, watch)
    snapshots.start()
    for number in (1, 2):
        save_checkpoint(
            tmp_path,
            {"params": np.full(3, number, np.float32)},
            {"num_steps": 100 * number, "num_updates": 10 * number},
        )
        wait_for(lambda number=number: len(snapshots.found) == number)
    snapshots.stop()
    assert [snapshot.num_steps for snapshot in snapshots.found] == [100, 200]
    assert [snapshot.vector.tolist() for snapshot in snapshots.found] == [[1.0] * 3, [2.0] * 3]
    assert 0 < snapshots.found[0].wall_s < snapshots.found[1].wall_s


@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
def test_the_layers_of_a_continuous_run_act_as_its_policy_does(algo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = preset(algo, "Pendulum-v1").override(hidden=(8, 8), run_dir=str(RUN_DIR))
    interface = describe(config)
    vector = initial_vector(policy_network(config, interface), np.random.default_rng(3))
    RUN_DIR.mkdir()
    save_checkpoint(RUN_DIR, {"params": vector}, {"num_steps": 1, "num_updates": 1})
    obs = np.random.default_rng(4).normal(size=(5, 3)).astype(np.float32)
    choose = chooser(
        ours_continuous.layers_of(config), gymnasium.make("Pendulum-v1").action_space, "relu", squashed=True
    )
    np.testing.assert_allclose(np.array(choose(obs)), 2 * make_policy(config, interface, vector).act(obs), rtol=1e-5)


@pytest.mark.parametrize(("num_actors", "num_learners"), [(0, 1), (None, 1), (1, 2)])
@pytest.mark.parametrize("key", [key for key in SETTINGS if key[0] in ("sac", "td3", "ddpg")], ids=" ".join)
def test_our_continuous_runs_do_the_steps_and_updates_of_the_peers(key, num_actors, num_learners, tmp_path):
    algo, env = key
    settings = SETTINGS[key]
    job = Job(
        kind="fixed",
        algo=algo,
        env=env,
        seed=1,
        total_steps=20_000,
        settings=settings,
        num_actors=num_actors,
        num_learners=num_learners,
        num_envs=None,
    )
    rules = Rules.of(preset(algo, env).override(**ours_continuous.overrides(job)))
    assert (rules.total_steps, rules.due(20_000)) == (20_000, settings.num_updates(20_000))
    job.save(path := tmp_path / "job.json")
    assert Job.load(path) == job


def wait_for(condition):
    watch = Stopwatch()
    while not condition():
        assert watch.read()[1] < 30, "nothing came"


def test_the_clock_stops_at_the_evaluation_that_reaches_the_target():
    job = replace(JOB, kind="target", target_return=1.0, num_episodes=2, evaluate_every=100)
    watch = Stopwatch()
    target = Target(job, watch)
    layers = [(np.zeros((4, 2), np.float32), np.zeros(2, np.float32))]
    assert not target.is_due(99)
    assert target.is_due(100)
    assert target.check(100, layers)
    times = watch.read()
    assert target.check(200, layers)
    assert watch.read() == times
    assert [entry["num_steps"] for entry in target.history] == [100]


def test_a_target_out_of_reach_keeps_the_clock_running():
    job = replace(JOB, kind="target", num_episodes=2, evaluate_every=100)
    target = Target(job, Stopwatch())
    layers = [(np.zeros((4, 2), np.float32), np.zeros(2, np.float32))]
    assert not target.check(100, layers)
    assert not target.is_due(199)
    assert target.is_due(200)
