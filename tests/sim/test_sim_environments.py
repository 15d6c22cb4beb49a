"""Our environments are Gymnasium's: the same step from the same state, starts, time limits and spaces."""

import dataclasses
import functools

import gymnasium
import jax
import numpy as np
import pytest
from comparing import assert_engine_equals_xla

from drivetrain import sim
from drivetrain.sim.registry import ENVIRONMENTS

NUM_STATES = 500
TOLERANCE = 1e-5
# Leaves of our state in Gymnasium's order, the bounds that states are drawn from, and the bounds of a start. Acrobot's
# velocities go to half their limits: near both limits at once, where no episode gets, the four stages of Runge-Kutta
# make of a rounding a relative 5e-5.
STATES = {
    "CartPole-v1": (("x", "x_dot", "theta", "theta_dot"), (2.5, 3.0, 0.22, 3.0), [(-0.05, 0.05)] * 4),
    "Pendulum-v1": (("theta", "theta_dot"), (np.pi, 8.0), [(-np.pi, np.pi), (-1.0, 1.0)]),
    "Acrobot-v1": (
        ("theta_1", "theta_2", "theta_dot_1", "theta_dot_2"),
        (np.pi, np.pi, 6.0, 14.0),
        [(-0.1, 0.1)] * 4,
    ),
    "MountainCar-v0": (("position", "velocity"), (1.2, 0.07), [(-0.6, -0.4), (0.0, 0.0)]),
    "MountainCarContinuous-v0": (("position", "velocity"), (1.2, 0.07), [(-0.6, -0.4), (0.0, 0.0)]),
}
NAMES = list(STATES)


@functools.cache
def batched(name):
    """An environment, its reset and its step for many environments, compiled once."""
    env = sim.make(name)
    params = env.default_params
    reset = jax.jit(jax.vmap(lambda key: env.reset(key, params)))
    step = jax.jit(jax.vmap(lambda state, action: env.step(jax.random.key(0), state, action, params)))
    return env, reset, step


def drawn(name):
    """States and actions all over their spaces: our states, Gymnasium's states, actions."""
    rng, (leaves, high, _) = np.random.default_rng(0), STATES[name]
    rows = rng.uniform(-np.array(high), high, (NUM_STATES, len(leaves))).astype(np.float32)
    if name.startswith("MountainCar"):
        rows[:, 0] = np.minimum(rows[:, 0], 0.6)
    space = gymnasium.make(name).action_space
    space.seed(0)
    actions = np.array([space.sample() for _ in range(NUM_STATES)])
    _, one = jax.eval_shape(batched(name)[1], jax.random.split(jax.random.key(0), NUM_STATES))
    columns = dict(zip(leaves, rows.T, strict=True), time=np.zeros(NUM_STATES, np.int32))
    return type(one)(**columns), rows, actions


def distance_to_threshold(name, obs):
    """How far an observation is from where the episode would end."""
    if name == "CartPole-v1":
        return min(abs(abs(obs[0]) - 2.4), abs(abs(obs[2]) - np.radians(12)))
    if name == "Acrobot-v1":
        return abs(-obs[0] - (obs[0] * obs[2] - obs[1] * obs[3]) - 1.0)
    return min(abs(obs[0] - (0.5 if name == "MountainCar-v0" else 0.45)), abs(obs[1]))


@pytest.mark.parametrize("name", NAMES)
def test_a_step_from_any_state_is_that_of_gymnasium(name):
    theirs = gymnasium.make(name).unwrapped
    theirs.reset(seed=0)
    states, rows, actions = drawn(name)
    obs, _, reward, terminated, *_ = batched(name)[2](states, actions)
    obs, reward, terminated = (np.asarray(leaf) for leaf in (obs, reward, terminated))
    num_ended = 0
    for k, row in enumerate(rows):
        theirs.state, theirs.steps_beyond_terminated = row.astype(np.float64), None
        expected, expected_reward, ended, _, _ = theirs.step(actions[k])
        np.testing.assert_allclose(obs[k], expected, rtol=TOLERANCE, atol=TOLERANCE)
        num_ended += ended
        if terminated[k] != ended:
            assert distance_to_threshold(name, expected) < TOLERANCE
        else:
            np.testing.assert_allclose(reward[k], expected_reward, rtol=TOLERANCE, atol=TOLERANCE)
    assert num_ended > 10 or name == "Pendulum-v1"


@pytest.mark.parametrize("name", NAMES)
def test_starts_are_spread_evenly_over_the_documented_ranges(name):
    (env, reset, _), num_starts = batched(name), 4000
    obs, states = reset(jax.random.split(jax.random.key(1), num_starts))
    leaves, _, bounds = STATES[name]
    for leaf, (low, high) in zip(leaves, bounds, strict=True):
        places = (np.sort(getattr(states, leaf)) - low) / (high - low or 1.0)
        evenly = np.linspace(0, 1 if high > low else 0, num_starts)
        assert np.abs(places - evenly).max() < 1.95 / np.sqrt(num_starts), leaf  # Kolmogorov-Smirnov, 0.1 %
    space = env.observation_space(env.default_params)
    assert space.contains(obs[0])
    assert obs.shape[1:] == space.shape


@pytest.mark.parametrize("name", NAMES)
def test_episodes_are_cut_at_the_time_limit_of_gymnasium(name):
    limit = gymnasium.spec(name).max_episode_steps
    states, _, actions = drawn(name)
    times = np.where(np.arange(NUM_STATES) % 2, limit - 1, limit - 2).astype(np.int32)
    *_, truncated, _ = batched(name)[2](dataclasses.replace(states, time=times), actions)
    np.testing.assert_array_equal(truncated, times == limit - 1)


@pytest.mark.parametrize("name", NAMES)
def test_spaces_are_those_of_gymnasium(name):
    env, theirs = sim.make(name), gymnasium.make(name)
    action, obs = env.action_space(env.default_params), env.observation_space(env.default_params)
    for ours, their in ((action, theirs.action_space), (obs, theirs.observation_space)):
        if isinstance(their, gymnasium.spaces.Discrete):
            assert ours.n == their.n
            continue
        low, high = (np.broadcast_to(np.asarray(bound, np.float32), ours.shape) for bound in (ours.low, ours.high))
        np.testing.assert_allclose(low, their.low)
        np.testing.assert_allclose(high, their.high)
        assert ours.dtype == their.dtype


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_no_type_and_no_rank_is_promoted_in_silence(name):
    env = sim.make(name)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        obs, state = jax.eval_shape(lambda key: env.reset(key, env.default_params), jax.random.key(0))
        action = jax.eval_shape(env.action_space(env.default_params).sample, jax.random.key(0))
        after = jax.eval_shape(lambda *x: env.step(jax.random.key(0), *x, env.default_params), state, action)
    assert jax.tree.map(lambda x: x.dtype, after[:2]) == jax.tree.map(lambda x: x.dtype, (obs, state))


# CartPole's kernel is compared in test_engines.py, at length.
@pytest.mark.release
@pytest.mark.parametrize("name", ["Pendulum-v1", "MountainCar-v0", "Knob"])
def test_native_equals_xla(name):
    assert_engine_equals_xla(sim.make(name), "native", num_envs=13, num_steps=40)


@pytest.mark.slow  # 10 s: Acrobot's kernel is large, and MountainCarContinuous has no operation that the others lack
@pytest.mark.parametrize("name", ["Acrobot-v1", "MountainCarContinuous-v0"])
def test_native_equals_xla_on_the_other_environments(name):
    assert_engine_equals_xla(sim.make(name), "native", num_envs=13, num_steps=200)
