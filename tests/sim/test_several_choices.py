"""Simulators with several discrete choices at once: what is drawn, Gymnasium's space, and the policy in the loop."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import assert_same

from drivetrain import sim
from drivetrain.core.errors import InvalidInput
from drivetrain.sim.random import policy_key
from drivetrain.sim.spaces import Box, MultiDiscrete

NVEC = [[2, 3], [4, 2]]
RECORD = ("obs", "action", "reward", "terminated", "truncated", "obs_before", "log_prob", "value")


class Dials:
    """Four dials, in a square, are turned to what is shown; the reward is how many are."""

    name = "Dials"
    default_params = None

    def reset(self, key, params):
        wanted = sim.random.randint(key, (2, 2), 0, jnp.array(NVEC))
        return wanted.astype(jnp.float32), (wanted, jnp.int32(0))

    def step(self, key, state, action, params):
        (wanted, time), following = state, sim.random.randint(key, (2, 2), 0, jnp.array(NVEC))
        reward = (action == wanted).sum().astype(jnp.float32)
        return following.astype(jnp.float32), (following, time + 1), reward, False, time >= 6, {}

    def action_space(self, params):
        return MultiDiscrete(NVEC)

    def observation_space(self, params):
        return Box(0.0, 3.0, (2, 2))


@pytest.fixture(scope="module")
def act():
    return sim.policies.mlp(Dials(), hidden=(8,))


@pytest.fixture(scope="module")
def params(act):
    params = jax.tree.map(np.asarray, act.init(jax.random.key(1)))
    params["output"] = jax.tree.map(lambda x: 50 * x + np.float32(0.1), params["output"])
    return params


def test_every_choice_is_drawn_from_its_own_values_equally_often():
    space = MultiDiscrete(NVEC)
    drawn = np.asarray(jax.jit(jax.vmap(space.sample))(jax.random.split(jax.random.key(0), 4096)))
    assert drawn.dtype == np.int32
    for index, n in np.ndenumerate(NVEC):
        counts = np.bincount(drawn[:, *index])
        assert len(counts) == n
        assert np.all(abs(counts - 4096 / n) < 5 * np.sqrt(4096 / n))
    assert space.contains(drawn[0])
    for other in ([[2, 0], [0, 0]], [[0, 0], [0, -1]], [0, 0, 0, 0], [[0.0, 0], [0, 0]], 1):
        assert not space.contains(other)


@pytest.mark.whole
def test_gymnasium_sees_its_own_space_of_choices_and_refuses_values_that_one_has_not():
    sim.check_env(Dials())
    envs = sim.make_vec(Dials(), 3, "numpy")
    assert envs.single_action_space == gymnasium.spaces.MultiDiscrete(NVEC)
    envs.reset(seed=0)
    taken = envs.action_space.sample()
    taken[1] = [[1, 2], [3, 1]]
    wanted = envs.state.obs
    reward = envs.step(taken)[1]
    np.testing.assert_array_equal(reward, (taken == wanted).sum((1, 2)))
    taken[1, 0, 1] = 3
    with pytest.raises(InvalidInput, match="expected integers from 0 to 2, got 3 for environment 1"):
        envs.step(taken)


def test_a_declared_shape_that_is_not_given_is_told():
    class Other(Dials):
        def observation_space(self, params):
            return MultiDiscrete([4, 4])

    with pytest.raises(InvalidInput, match=r"observation: its space is multi-discrete, expected integers of the shape"):
        sim.make_vec(Other(), 1)


@pytest.mark.whole
def test_each_choice_is_drawn_from_its_own_logits_and_their_log_probabilities_are_added(act, params):
    keys = jax.random.split(jax.random.key(3), 5_000)
    obs = jnp.array([[1.0, 2.0], [3.0, 0.0]])
    drawn, extras = jax.jit(jax.vmap(lambda key: act(params, obs, key)))(keys)
    hidden = np.tanh(np.ravel(obs) @ params["hidden"][0]["weights"] + params["hidden"][0]["bias"])
    logits = hidden @ params["output"]["weights"] + params["output"]["bias"]
    parts = [np.exp(part) / np.exp(part).sum() for part in np.split(logits, [2, 5, 9])]
    flat, log_prob = np.asarray(drawn).reshape(-1, 4), 0.0
    for index, expected in enumerate(parts):
        found = np.bincount(flat[:, index], minlength=len(expected)) / len(flat)
        np.testing.assert_allclose(found, expected, atol=0.03)
        log_prob = log_prob + np.log(expected[flat[:, index]])
    np.testing.assert_allclose(extras["log_prob"], log_prob, rtol=1e-4, atol=1e-5)
    assert np.abs(np.corrcoef(flat.T) - np.eye(4)).max() < 0.06  # each by itself


@pytest.mark.whole
def test_the_policy_in_the_loop_plays_as_the_same_function_under_jax(act, params):
    rollout = sim.compile(Dials(), 3, 4, "native", policy=act, policy_params=params, record=RECORD)
    state = rollout.reset(seed=7)
    _, got = rollout(state, policy=params)
    for step in range(4):
        keys = jnp.stack([policy_key(words, np.uint32(step), "threefry") for words in np.asarray(state.keys)])
        action, extras = jax.vmap(act, (None, 0, 0))(params, got["obs_before"][step], keys)
        np.testing.assert_array_equal(got["action"][step], action)
        for name, array in extras.items():
            np.testing.assert_allclose(got[name][step], array, rtol=1e-5, atol=1e-6)


@pytest.mark.whole
@pytest.mark.parametrize(("engine", "generator"), [("native", "threefry"), ("numpy", "threefry"), ("native", "philox")])
def test_engines_act_as_xla(act, params, engine, generator):
    options = {"policy": act, "policy_params": params, "record": RECORD, "generator": generator}
    oracle, tested = (sim.compile(Dials(), 13, 1, each, **options) for each in ("xla", engine))
    state, num_ended = oracle.reset(seed=3), 0
    for step in range(20):
        expected, got = oracle(state, policy=params), tested(state, policy=params)
        assert_same(expected, got, f"step {step}: ")
        state = expected[0]
        num_ended += int(np.sum(state.done))
    assert num_ended


def test_action_values_of_several_choices_are_refused():
    with pytest.raises(InvalidInput, match="expected categorical for several discrete actions at once, got 'eps"):
        sim.policies.mlp(Dials(), head="epsilon_greedy")
