"""Learners of other libraries train on our simulators as they are: Stable-Baselines3's PPO and a CleanRL-style loop."""

import gymnasium
import numpy as np
import pytest

pytest.importorskip("torch", reason='needs torch: pip install torch "drivetrain[bench]"')
pytest.importorskip("stable_baselines3", reason='needs the peers: pip install torch "drivetrain[bench]"')

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from drivetrain import sim
from drivetrain.bench.sim.peers.learning_cleanrl import Learner, settings_for
from drivetrain.core.errors import InvalidInput
from drivetrain.sim.gymnasium import sb3
from drivetrain.sim.gymnasium.infos import of_each
from drivetrain.sim.gymnasium.sb3 import SB3VecEnv

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _as_before():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_an_episode_that_ends_is_told_to_stable_baselines_with_how_it_ended():
    env, expected = SB3VecEnv("CartPole-v1", 3), sim.make_vec("CartPole-v1", 3, autoreset="same_step")
    env.seed(4)
    np.testing.assert_array_equal(env.reset(), expected.reset(seed=4)[0])
    num_ended = 0
    for action in np.random.default_rng(0).integers(0, 2, (60, 3)):
        obs, _, done, infos = env.step(action)
        theirs = expected.step(action)
        np.testing.assert_array_equal(obs, theirs[0])
        np.testing.assert_array_equal(done, theirs[2] | theirs[3])
        for index, info in enumerate(infos):
            assert set(info) == {"TimeLimit.truncated"} | ({"terminal_observation"} if done[index] else set())
            assert info["TimeLimit.truncated"] is False
            if done[index]:
                np.testing.assert_array_equal(info["terminal_observation"], theirs[4]["final_obs"][index])
        num_ended += int(done.sum())
    assert num_ended > 3


def test_infos_have_in_every_step_what_those_of_stable_baselines_own_vectors_have():
    ours = SB3VecEnv("CartPole-v1", 2)
    theirs = DummyVecEnv([lambda: gymnasium.make("drivetrain.sim:drivetrain/CartPole-v1")] * 2)
    ours.reset(), theirs.reset()
    for _ in range(40):
        for left, right in zip(*(env.step(np.ones(2, np.int64))[3] for env in (ours, theirs)), strict=True):
            assert left.keys() - {"terminal_observation"} == right.keys() - {"terminal_observation"}
            assert left["TimeLimit.truncated"] is right["TimeLimit.truncated"] is False


def test_an_episode_that_is_cut_off_is_told_as_such():
    env = SB3VecEnv("Pendulum-v1", 2)
    env.reset()
    for _ in range(200):
        _, _, done, infos = env.step(np.zeros((2, 1), np.float32))
    assert done.all()
    assert [info["TimeLimit.truncated"] for info in infos] == [True, True]


def test_options_of_a_reset_are_refused_where_they_are_set():
    env = SB3VecEnv("CartPole-v1", 2)
    for none in (None, {}, [{}, {}]):
        env.set_options(none)
    for some in ({"low": 0}, [{}, {"low": 0}]):
        with pytest.raises(InvalidInput, match="set_options: expected none, since a reset restarts every environment"):
            env.set_options(some)


@pytest.mark.release
def test_infos_of_episodes_that_end_together_are_looked_at_once(monkeypatch):
    asked = []
    monkeypatch.setattr(sb3, "of_each", lambda infos, num_envs: asked.append(num_envs) or of_each(infos, num_envs))
    env = SB3VecEnv("gymnax/Pendulum-v1", 5)
    env.reset()
    for step in range(200):
        _, _, done, infos = env.step(np.zeros((5, 1), np.float32))
        assert asked == [5] * (2 if step == 199 else 1)
        asked.clear()
    assert done.all()
    assert all("terminal_observation" in info and "discount" in info for info in infos)


def test_frames_of_a_batch_are_shown_to_what_records_them():
    env = SB3VecEnv("CartPole-v1", 2, render_mode="rgb_array")
    env.reset()
    frames = env.get_images()
    assert [frame.shape for frame in frames] == [(240, 360, 3)] * 2
    assert env.render(mode="rgb_array").shape == (480, 360, 3)  # one above the other, as Stable-Baselines3 puts two


def test_what_a_batch_has_not_is_refused():
    env = SB3VecEnv("CartPole-v1", 2)
    with pytest.raises(InvalidInput, match="one compiled program"):
        env.env_method("jump")
    with pytest.raises(InvalidInput, match="one compiled program"):
        env.set_attr("gravity", 1.0)
    with pytest.raises(InvalidInput, match="expects same_step"):
        SB3VecEnv("CartPole-v1", 2, autoreset="next_step")


def test_ppo_of_stable_baselines_trains_on_a_batch():
    env = VecMonitor(SB3VecEnv("CartPole-v1", 16))
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=64, n_epochs=2, seed=0, device="cpu").learn(1024)
    assert model.num_timesteps == 1024
    assert len(model.ep_info_buffer) > 10


def test_ppo_of_stable_baselines_trains_on_single_environments_by_id():
    env = make_vec_env("drivetrain/CartPole-v1", n_envs=2, seed=0)
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, seed=0, device="cpu").learn(128)
    assert model.num_timesteps == 128


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_a_loop_in_the_manner_of_cleanrl_trains_on_a_batch(name):
    torch.manual_seed(0)
    envs = gymnasium.make_vec(f"drivetrain/{name}", num_envs=8, autoreset="same_step")
    learner = Learner(envs, 8, settings_for(8))
    before = [parameter.clone() for parameter in learner.agent.actor.parameters()]
    assert learner.iterate() + learner.iterate() == 2 * 32 * 8
    assert all(not torch.equal(x, y) for x, y in zip(before, learner.agent.actor.parameters(), strict=True))


@pytest.mark.slow  # a minute: learning takes it
def test_both_learn_cartpole():
    env = VecMonitor(SB3VecEnv("CartPole-v1", 64))
    options = {"n_steps": 32, "batch_size": 512, "n_epochs": 10, "gae_lambda": 0.8, "gamma": 0.98}
    model = PPO("MlpPolicy", env, learning_rate=1e-3, seed=0, device="cpu", **options).learn(150_000)
    assert np.mean([episode["r"] for episode in model.ep_info_buffer]) > 300
    torch.manual_seed(0)
    venv = gymnasium.wrappers.vector.RecordEpisodeStatistics(sim.make_vec("CartPole-v1", 64, autoreset="same_step"))
    learner = Learner(venv, 64, settings_for(64))
    for _ in range(75):
        learner.iterate()
    assert np.mean(venv.return_queue) > 75  # with fewer updates than above; acting at random gives 22
