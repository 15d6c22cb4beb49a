"""SAC: losses and gradients against float64 NumPy and finite differences, and what an update changes."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp
import scipy.stats
from written_out import (
    ACTIONS,
    BATCH,
    INPUTS,
    INTERFACE,
    assert_close,
    assert_one_call_equals_single_updates,
    finite_differences,
    hidden,
    layer,
    make_batch,
    q_of,
    to_numpy,
    twin,
)

from drivetrain.train.algos import sac
from drivetrain.train.algos.critics import Networks
from drivetrain.train.algos.losses import squashed_sample
from drivetrain.train.config import SACConfig, TrainConfig
from drivetrain.train.learner.sharing import ONE_LEARNER
from drivetrain.train.networks import MLP

CONFIG = SACConfig(hidden=(8,), initial_temperature=0.3)
NETWORKS = Networks(
    MLP(num_inputs=INPUTS, hidden=(8,), heads=(("mean", ACTIONS), ("log_std", ACTIONS))),
    MLP(num_inputs=INPUTS + ACTIONS, hidden=(8,), heads=(("q", 1),)),
)
update = jax.jit(sac.update, static_argnums=(3, 4))


def fresh_state(config=CONFIG):
    state = sac.init(NETWORKS, config, np.random.default_rng(0))
    return state._replace(targets=sac.init(NETWORKS, config, np.random.default_rng(9)).critics)


def draws(seed=7):
    noise = np.random.default_rng(seed).normal(size=(2, BATCH, ACTIONS)).astype(np.float32)
    return sac.Draws(noise[0], noise[1])


def sample(actor, obs, noise):
    """Action and log density by the change of variables, with SciPy's normal density."""
    features = hidden(actor, obs)
    mean, log_std = layer(actor, "mean", features), np.clip(layer(actor, "log_std", features), -20, 2)
    raw = mean + np.exp(log_std) * noise
    density = scipy.stats.norm.logpdf(raw, mean, np.exp(log_std)) - np.log(1 - np.tanh(raw) ** 2)
    return np.tanh(raw), density.sum(-1)


def critic_target(state, batch, noise):
    action, log_pi = sample(to_numpy(state.actor), batch.next_obs, noise)
    targets = to_numpy(state.targets)
    next_q = np.minimum(*(q_of(twin(targets, i), batch.next_obs, action) for i in range(2)))
    return batch.reward + batch.discount * (next_q - np.exp(float(state.log_alpha)) * log_pi)


def test_the_density_of_a_squashed_sample_integrates_to_one():
    raw = np.linspace(-12, 12, 40_001)
    mean, log_std = 0.4, -0.2
    noise = ((raw - mean) / np.exp(log_std))[:, None].astype(np.float32)
    column = np.ones_like(noise)
    action, log_pi = squashed_sample(jnp.array(mean * column), jnp.array(log_std * column), jnp.array(noise))
    assert np.trapezoid(np.exp(np.float64(log_pi)), np.float64(action)[:, 0]) == pytest.approx(1.0, abs=1e-3)


def test_critic_loss_and_gradient_equal_an_independent_form_and_its_finite_differences():
    state, batch, noise = fresh_state(), make_batch(1), draws().bootstrap
    graded = jax.jit(jax.value_and_grad(sac.critic_loss, has_aux=True), static_argnums=(4,))
    (value, (td_errors, _)), slopes = graded(state.critics, state, batch, noise, NETWORKS)
    y = critic_target(state, batch, noise)

    def loss(critics):
        errors = [q_of(twin(critics, i), batch.obs, batch.action) - y for i in range(2)]
        return sum((batch.weights * error**2 / 2).mean() for error in errors)

    critics = to_numpy(state.critics)
    assert float(value) == pytest.approx(loss(critics), rel=1e-4)
    assert_close(slopes, finite_differences(loss, critics), atol=1e-3)
    assert np.allclose(td_errors[1], q_of(twin(critics, 1), batch.obs, batch.action) - y, atol=1e-4)


def test_actor_loss_and_gradient_equal_an_independent_form_and_its_finite_differences():
    state, batch, noise = fresh_state(), make_batch(2), draws().policy
    graded = jax.jit(jax.value_and_grad(sac.actor_loss, has_aux=True), static_argnums=5)
    (value, log_pi), slopes = graded(state.actor, state.critics, jnp.float32(0.3), batch.obs, noise, NETWORKS)
    critics = to_numpy(state.critics)

    def loss(actor):
        action, log_pi = sample(actor, batch.obs, noise)
        q = np.minimum(*(q_of(twin(critics, i), batch.obs, action) for i in range(2)))
        return (0.3 * log_pi - q).mean()

    actor = to_numpy(state.actor)
    assert float(value) == pytest.approx(loss(actor), rel=1e-4)
    assert float(log_pi) == pytest.approx(sample(actor, batch.obs, noise)[1].mean(), rel=1e-4)
    assert_close(slopes, finite_differences(loss, actor))


@pytest.mark.release
def test_the_actor_is_graded_by_the_critics_after_their_step():
    state, batch = fresh_state(), make_batch(3)
    new, _, metrics = update(state, batch, draws(), NETWORKS, CONFIG)
    alpha = jnp.exp(state.log_alpha)
    after, _ = sac.actor_loss(state.actor, new.critics, alpha, batch.obs, draws().policy, NETWORKS)
    before, _ = sac.actor_loss(state.actor, state.critics, alpha, batch.obs, draws().policy, NETWORKS)
    assert float(metrics["policy_loss"]) == pytest.approx(float(after), rel=1e-5)
    assert float(after) != pytest.approx(float(before), rel=1e-5)


@pytest.mark.parametrize(("target_entropy", "direction"), [(-50.0, -1), (50.0, 1)])
def test_the_temperature_falls_where_the_policy_is_more_random_than_wanted_and_rises_otherwise(
    target_entropy, direction
):
    config = SACConfig(hidden=(8,), target_entropy=target_entropy)
    state = fresh_state(config)
    new, _, metrics = update(state, make_batch(4), draws(), NETWORKS, config)
    # Adam's first step is the learning rate, whatever the size of the gradient.
    assert float(new.log_alpha - state.log_alpha) == pytest.approx(direction * config.learning_rate, rel=1e-3)
    assert float(metrics["temperature"]) == pytest.approx(1.0)


def test_a_fixed_temperature_stays():
    config = SACConfig(hidden=(8,), learn_temperature=False, initial_temperature=0.2)
    new, _, _ = update(fresh_state(config), make_batch(4), draws(), NETWORKS, config)
    assert float(jnp.exp(new.log_alpha)) == pytest.approx(0.2)


def test_targets_move_by_their_share_to_the_new_critics():
    config = SACConfig(hidden=(8,), target_tau=0.25)
    state = fresh_state(config)
    new, _, _ = update(state, make_batch(5), draws(), NETWORKS, config)
    for name, target in new.targets.items():
        assert np.allclose(target, 0.75 * state.targets[name] + 0.25 * new.critics[name], atol=1e-6)


@pytest.mark.release
@pytest.mark.parametrize(("count", "padded"), [(4, 0), (3, 1)])
def test_one_call_of_several_updates_equals_single_updates(count, padded):
    algorithm = sac.make(TrainConfig.default("sac", "E").override(hidden=(8,), warmup_steps=5_000), INTERFACE)
    assert_one_call_equals_single_updates(algorithm, count, padded)


@pytest.mark.whole
def test_each_update_draws_noise_of_its_own_and_a_state_fixes_it():
    algorithm = sac.make(TrainConfig.default("sac", "E").override(hidden=(8,)), INTERFACE)
    single, state, batch = (
        jax.jit(partial(algorithm.update, learners=ONE_LEARNER)),
        algorithm.init(np.random.default_rng(3)),
        make_batch(8),
    )
    first, again = (single(state, batch)[2]["entropy"] for _ in range(2))
    later = single(state._replace(num_updates=jnp.int32(1)), batch)[2]["entropy"]
    assert float(first) == float(again)
    assert float(first) != float(later)
