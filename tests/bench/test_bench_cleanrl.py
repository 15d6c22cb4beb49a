"""The CleanRL peers do the steps and updates that everybody has to do, and learn something."""

import importlib
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason='needs torch: pip install torch "drivetrain[bench]"')
pytest.importorskip("stable_baselines3", reason='needs the peers: pip install torch "drivetrain[bench]"')

import torch

from drivetrain.bench.train.contenders import PEERS_OF
from drivetrain.bench.train.evaluation import outputs
from drivetrain.bench.train.job import Job
from drivetrain.bench.train.plan import SETTINGS
from drivetrain.bench.train.rounds import require_same_work
from drivetrain.bench.train.settings import DqnSettings
from drivetrain.bench.train.stopwatch import Stopwatch

pytestmark = pytest.mark.torch
CASES = [("dqn", "CartPole-v1"), ("ppo", "CartPole-v1"), ("ppo", "Pendulum-v1")]
CASES += [(algo, "Pendulum-v1") for algo in ("sac", "td3", "ddpg")]


def small(algo, env):
    """The settings of the comparison with less of everything that takes time."""
    settings = replace(SETTINGS[algo, env], hidden=(16, 16), batch_size=16)
    if algo == "dqn":
        return replace(settings, learning_starts=256), 600
    if algo == "ppo":
        return replace(settings, n_steps=32, n_epochs=2), 200
    return replace(settings, learning_starts=100), 150


@pytest.fixture(autouse=True)
def _as_before():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def trained(algo, env, seed=1):
    settings, total_steps = small(algo, env)
    job = Job(kind="fixed", algo=algo, env=env, seed=seed, total_steps=total_steps, settings=settings)
    (peer,) = (peer for peer in PEERS_OF[algo] if peer.name == "CleanRL")
    return job, importlib.import_module(peer.module).run(job, Stopwatch())


@pytest.mark.whole
@pytest.mark.parametrize(("algo", "env"), CASES)
def test_the_steps_and_updates_are_those_that_everybody_does(algo, env):
    job, training = trained(algo, env)
    assert training.num_updates > 0
    require_same_work("CleanRL", job, training)
    num_inputs = {"CartPole-v1": 4, "Pendulum-v1": 3}[env]
    found = outputs(training.layers, np.zeros((5, num_inputs), np.float32), job.settings.activation)
    assert found.shape == (5, 2 if env == "CartPole-v1" else 1)


@pytest.mark.whole
@pytest.mark.parametrize(("algo", "env"), CASES)
def test_a_seed_fixes_what_is_learned(algo, env):
    policies = [trained(algo, env, seed)[1].layers for seed in (1, 1, 2)]
    same = [all(np.array_equal(a[0], b[0]) for a, b in zip(policies[0], other, strict=True)) for other in policies[1:]]
    assert same == [True, False]


ON_IMAGES = {
    "dqn": ({"learning_starts": 16, "buffer_size": 64, "batch_size": 4}, 24, 2),
    "ppo": ({"num_envs": 2, "n_steps": 4, "batch_size": 4, "n_epochs": 2}, 16, 8),
}


@pytest.mark.release
@pytest.mark.parametrize(
    ("algo", "peer"),
    [pytest.param(algo, peer, id=f"{algo} {peer.name}") for algo in ON_IMAGES for peer in PEERS_OF[algo]],
)
def test_images_are_learned_from(algo, peer):
    pytest.importorskip("ale_py", reason="needs the atari extra")
    pytest.importorskip("sbx", reason='needs the peers: pip install torch "drivetrain[bench]"')
    changed, total_steps, num_updates = ON_IMAGES[algo]
    settings = replace(SETTINGS[algo, "ALE/Pong-v5"], **changed)
    job = Job(kind="fixed", algo=algo, env="ALE/Pong-v5", seed=1, total_steps=total_steps, settings=settings)
    training = importlib.import_module(peer.module).run(job, Stopwatch())
    assert (training.num_updates, training.layers) == (num_updates, [])
    require_same_work(peer.name, job, training)


@pytest.mark.whole
@pytest.mark.parametrize("peer", PEERS_OF["dqn"], ids=lambda peer: peer.name)
def test_dqn_needs_no_atari_for_other_environments(peer, monkeypatch):
    pytest.importorskip("sbx", reason='needs the peers: pip install torch "drivetrain[bench]"')
    for module in (peer.module, "drivetrain.bench.train.peers.atari"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "ale_py", None)
    job = Job(kind="fixed", env="CartPole-v1", seed=1, total_steps=300, settings=small("dqn", "CartPole-v1")[0])
    job = replace(job, settings=replace(job.settings, learning_starts=16))
    assert importlib.import_module(peer.module).run(job, Stopwatch()).num_steps >= 300


def test_dqn_takes_one_environment_alone():
    job = Job(kind="fixed", env="CartPole-v1", seed=1, total_steps=600, num_envs=8, settings=DqnSettings())
    module = importlib.import_module("drivetrain.bench.train.peers.cleanrl_dqn")
    with pytest.raises(AssertionError, match="one environment"):
        module.run(job, Stopwatch())
