"""Acting: what each algorithm does for evaluation and while it learns, by NumPy."""

import numpy as np
import pytest

from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import BoxActions, DiscreteActions, Interface, Vector
from drivetrain.train.networks import initial_vector, unpack
from drivetrain.train.policies.policy import gaussian, make_policy, policy_network
from drivetrain.train.policies.q_networks import q_values

DISCRETE = Interface(observations=Vector(shape=(4,)), actions=DiscreteActions(count=3, start=0))
CONTINUOUS = Interface(
    observations=Vector(shape=(4,)),
    actions=BoxActions(low=(-1.0, -1.0), high=(1.0, 1.0), shape=(2,), dtype="float32"),
)
LATER = 100_000


def interface_of(algo):
    return DISCRETE if algo == "dqn" else CONTINUOUS


def make(algo, **settings):
    config = TrainConfig.default(algo, "E").override(hidden=(16,), num_actors=1, **settings)
    interface = interface_of(algo)
    vector = initial_vector(policy_network(config, interface), np.random.default_rng(0))
    return config, vector, make_policy(config, interface, vector)


def observations(count=64):
    return np.random.default_rng(1).normal(size=(count, 4)).astype(np.float32)


@pytest.mark.parametrize("algo", ["dqn", "ddpg", "td3", "sac"])
def test_a_policy_sees_weights_that_are_overwritten_in_place(algo):
    config, vector, policy = make(algo)
    network = policy_network(config, interface_of(algo))
    obs = observations()
    before = policy.act(obs).copy()
    other = initial_vector(network, np.random.default_rng(1))
    vector[:] = other
    assert np.array_equal(policy.act(obs), make_policy(config, interface_of(algo), other).act(obs))
    assert not np.array_equal(policy.act(obs), before)


def test_dqn_takes_the_action_of_largest_q():
    config, vector, policy = make("dqn")
    network = policy_network(config, DISCRETE)
    obs = observations()
    assert np.array_equal(policy.act(obs), q_values(network, unpack(network, vector), obs, config.agent, np).argmax(-1))


def test_dqn_explores_with_the_share_of_random_actions_that_the_schedule_says():
    _, _, policy = make("dqn", epsilon_start=1.0, epsilon_end=0.0, exploration_steps=1_000)
    obs = np.repeat(observations(1), 6_000, axis=0)
    greedy = policy.act(obs[:1])[0]
    rng = np.random.default_rng(2)
    assert np.mean(policy.explore(obs, 0, rng) == greedy) == pytest.approx(1 / 3, abs=0.03)
    assert np.mean(policy.explore(obs, 500, rng) == greedy) == pytest.approx(2 / 3, abs=0.03)
    assert np.all(policy.explore(obs, 1_000, rng) == greedy)


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_continuous_actions_are_uniform_during_warm_up_and_always_within_the_bounds(algo):
    _, _, policy = make(algo, warmup_steps=1_000)
    obs = observations(5_000)
    rng = np.random.default_rng(3)
    random = policy.explore(obs, 0, rng)
    assert (random.dtype, random.shape) == (np.float32, (5_000, 2))
    assert np.abs(random).max() <= 1
    assert np.allclose(np.quantile(random, [0.25, 0.5, 0.75], axis=0), np.array([[-0.5], [0], [0.5]]), atol=0.05)
    later = policy.explore(obs, LATER, rng)
    assert later.dtype == np.float32
    assert np.abs(later).max() <= 1


@pytest.mark.parametrize("algo", ["ddpg", "td3"])
def test_deterministic_policies_add_gaussian_noise_of_the_given_width(algo):
    _, _, policy = make(algo, exploration_noise=0.05)
    obs = observations(5_000)
    noise = policy.explore(obs, LATER, np.random.default_rng(4)) - policy.act(obs)
    assert np.allclose(noise.std(0), 0.05, rtol=0.05)
    assert np.allclose(noise.mean(0), 0, atol=0.003)


def test_sac_samples_its_squashed_gaussian_and_evaluates_its_mean():
    config, vector, policy = make("sac")
    network = policy_network(config, CONTINUOUS)
    obs = np.repeat(observations(1), 20_000, axis=0)
    mean, log_std = gaussian(network, unpack(network, vector), obs[:1], np)
    assert np.allclose(policy.act(obs[:1]), np.tanh(mean), atol=1e-6)
    raw = np.arctanh(policy.explore(obs, LATER, np.random.default_rng(5)).astype(np.float64))
    assert np.allclose(raw.mean(0), mean[0], atol=0.03)
    assert np.allclose(raw.std(0), np.exp(log_std[0]), rtol=0.03)
