"""Exploration noise that remembers, and who takes it."""

import numpy as np
import pytest

from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.rounds.episodes import Episodes
from drivetrain.train.experience.rounds.exploration import Apart, Together
from drivetrain.train.interface import BoxActions, Interface, Vector
from drivetrain.train.networks import initial_vector
from drivetrain.train.policies.noise import CorrelatedNoise
from drivetrain.train.policies.policy import make_policy, policy_network

INTERFACE = Interface(
    observations=Vector(shape=(3,)),
    actions=BoxActions(low=(-1.0, -1.0), high=(1.0, 1.0), shape=(2,), dtype="float32"),
)
LATER = 100_000


def paths(correlation, num_steps, num_envs=4_000):
    """float32[num_steps, num_envs, 1], all episodes begun at the first step."""
    rng, noise = np.random.default_rng(0), CorrelatedNoise(correlation, num_envs, 1)
    return np.stack([noise.next(rng, 0, num_envs) for _ in range(num_steps)])[..., 0]


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_every_step_is_standard_normal_and_remembers_by_powers_of_the_correlation(correlation):
    path = paths(correlation, 12)
    assert path.dtype == np.float32
    assert np.allclose(path.mean(1), 0, atol=0.06)
    assert np.allclose(path.std(1), 1, atol=0.05)
    for lag in (1, 3, 8):
        assert np.corrcoef(path[2], path[2 + lag])[0, 1] == pytest.approx(correlation**lag, abs=0.05)


def test_an_episodes_noise_depends_on_nothing_before_it_and_others_go_on():
    rng, noise = np.random.default_rng(0), CorrelatedNoise(0.999, 4_000, 1)
    before = noise.next(rng, 0, 4_000)[:, 0]
    for env in range(2_000):
        noise.begin(env)
    after = noise.next(rng, 0, 4_000)[:, 0]
    assert abs(np.corrcoef(before[:2_000], after[:2_000])[0, 1]) < 0.08
    assert np.corrcoef(before[2_000:], after[2_000:])[0, 1] > 0.99


def test_environments_that_are_not_asked_for_keep_their_noise():
    rng, noise = np.random.default_rng(0), CorrelatedNoise(0.999, 3, 2)
    first = noise.next(rng, 0, 3)
    for _ in range(2_000):
        noise.next(rng, 0, 2)  # the last steps of a run are of fewer environments
    assert np.abs(noise.next(rng, 2, 1) - first[2:]).max() < 0.3
    assert noise.next(rng, 0, 2).shape == (2, 2)


def made(algo, **settings):
    config = TrainConfig.default(algo, "E").override(hidden=(8,), num_actors=1, envs_per_actor=2, **settings)
    network = policy_network(config, INTERFACE)
    return config, make_policy(config, INTERFACE, initial_vector(network, np.random.default_rng(0)))


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_actions_of_a_policy_lean_to_one_side_for_as_long_as_its_noise_does(algo):
    settings = {} if algo == "sac" else {"exploration_noise": 0.3}
    obs = np.zeros((2, 3), np.float32)
    lasting = {}
    for correlation in (0.0, 0.98):
        config, policy = made(algo, noise_correlation=correlation, **settings)
        exploration = Together(config, INTERFACE, (0, 0))
        actions = np.stack([exploration.actions(policy, obs, LATER) for _ in range(3_000)])
        assert actions.dtype == np.float32
        off = (actions - policy.act(obs))[..., 0]
        lasting[correlation] = [np.corrcoef(off[:-1, env], off[1:, env])[0, 1] for env in range(2)]
    assert np.abs(lasting[0.0]).max() < 0.08
    assert min(lasting[0.98]) > 0.9


def test_noise_starts_anew_with_an_episode():
    config, policy = made("ddpg", exploration_noise=0.1, noise_correlation=0.999_999)
    exploration = Together(config, INTERFACE, (0, 0))
    obs = np.zeros((2, 3), np.float32)
    first = exploration.actions(policy, obs, LATER)
    assert exploration.next_seed(0) is None
    second = exploration.actions(policy, obs, LATER)
    assert np.abs(second[0] - first[0]).max() > 0.01
    assert np.abs(second[1] - first[1]).max() < 0.01


def test_a_deterministic_run_that_goes_on_knows_what_noise_had_come_to():
    config, policy = made("td3", noise_correlation=0.9, deterministic=True)
    obs = np.zeros((2, 3), np.float32)
    through = Apart(config, INTERFACE, 0, 0, Episodes(2))
    for _ in range(7):
        through.actions(policy, obs, 0)
    through.next_seed(1)  # the second environment's episode ends after 7 steps
    taken = [through.actions(policy, obs, 0) for _ in range(5)]
    episodes = Episodes(2)
    episodes.numbers, episodes.actions = [0, 1], [[0.0] * 9, [0.0] * 2]
    resumed = Apart(config, INTERFACE, 0, 9, episodes)
    for after in taken[2:]:
        np.testing.assert_array_equal(resumed.actions(policy, obs, 0), after)
