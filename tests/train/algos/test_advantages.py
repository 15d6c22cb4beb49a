"""Advantages: the scan against a readable loop, and what each kind of end bootstraps from."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax.numpy as jnp

from drivetrain.train.algos.advantages import Ends, gae, next_values

LENGTH, NUM_ENVS = 9, 4


def by_hand(reward, values, last_values, ends, gamma, gae_lambda):
    """GAE as its definition reads, one environment and one step at a time."""
    advantages = np.zeros_like(reward)
    for env in range(reward.shape[1]):
        later = 0.0
        for t in reversed(range(len(reward))):
            if ends.terminated[t, env]:
                following = 0.0
            elif ends.truncated[t, env] or t == len(reward) - 1:
                following = last_values[t, env]
            else:
                following = values[t + 1, env]
            delta = reward[t, env] + gamma * following - values[t, env]
            if ends.terminated[t, env] or ends.truncated[t, env]:
                later = 0.0
            later = delta + gamma * gae_lambda * later
            advantages[t, env] = later
    return advantages


def advantages_of(reward, values, last_values, ends, gamma, gae_lambda):
    following = next_values(jnp.array(values), jnp.array(last_values), Ends(*map(jnp.array, ends)))
    return gae(jnp.array(reward), jnp.array(values), following, Ends(*map(jnp.array, ends)), gamma, gae_lambda)


@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.97, 0.9), (1.0, 1.0), (0.9, 0.0)])
def test_the_scan_equals_a_readable_loop_whatever_the_ends(gamma, gae_lambda):
    rng = np.random.default_rng(5)
    reward, values, last_values = rng.normal(size=(3, LENGTH, NUM_ENVS)).astype(np.float32)
    ends = Ends(rng.random((LENGTH, NUM_ENVS)) < 0.2, rng.random((LENGTH, NUM_ENVS)) < 0.2)
    got = advantages_of(reward, values, last_values, ends, gamma, gae_lambda)
    assert np.allclose(got, by_hand(reward, values, last_values, ends, gamma, gae_lambda), atol=1e-5)


def test_with_lambda_1_an_advantage_is_the_return_less_the_value_in_numbers_worked_out_by_hand():
    reward, values = np.array([[1.0], [2.0], [4.0]]), np.array([[10.0], [20.0], [30.0]])
    last_values = np.array([[0.0], [0.0], [8.0]])
    ends = Ends(np.zeros((3, 1), bool), np.zeros((3, 1), bool))
    # Returns with gamma 1/2 that go on with the value 8: 4 + 4 = 8, 2 + 4 = 6, 1 + 3 = 4.
    assert advantages_of(reward, values, last_values, ends, 0.5, 1.0).ravel().tolist() == [-6.0, -14.0, -22.0]


@pytest.mark.parametrize(("kind", "expected"), [("terminated", -18.0), ("truncated", -12.0)])
def test_termination_is_worth_nothing_and_truncation_the_value_of_the_true_last_observation(kind, expected):
    reward, values = np.array([[1.0], [2.0], [4.0]]), np.array([[10.0], [20.0], [30.0]])
    last_values = np.array([[0.0], [12.0], [8.0]])  # of the observation after the second step: 12
    no, second = np.zeros((3, 1), bool), np.array([[False], [True], [False]])
    ends = Ends(second, no) if kind == "terminated" else Ends(no, second)
    got = advantages_of(reward, values, last_values, ends, 0.5, 0.5).ravel()
    # delta_1 = 2 - 20 or 2 + 6 - 20;  A_0 = 1 + 10 - 10 + A_1 / 4
    assert got[1] == expected
    assert got[0] == 1.0 + 0.25 * expected
    assert got[2] == 4.0 + 4.0 - 30.0
