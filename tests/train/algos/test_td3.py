"""TD3: losses and gradients against float64 NumPy and finite differences, and its delayed updates."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp
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

from drivetrain.train.algos import td3
from drivetrain.train.algos.critics import Networks
from drivetrain.train.config import TD3Config, TrainConfig
from drivetrain.train.learner.updates import compile_updates, means_of
from drivetrain.train.networks import MLP

CONFIG = TD3Config(hidden=(8,))
NETWORKS = Networks(
    MLP(num_inputs=INPUTS, hidden=(8,), heads=(("action", ACTIONS),)),
    MLP(num_inputs=INPUTS + ACTIONS, hidden=(8,), heads=(("q", 1),)),
)
NOISE = 3 * np.random.default_rng(7).normal(size=(BATCH, ACTIONS)).astype(np.float32)  # some of it is clipped
update = jax.jit(td3.update, static_argnums=(3, 4))


def fresh_state(config=CONFIG):
    state = td3.init(NETWORKS, config, np.random.default_rng(0))
    other = td3.init(NETWORKS, config, np.random.default_rng(9))
    return state._replace(targets=(other.actor, other.critics))


def mu(actor, obs):
    return np.tanh(layer(actor, "action", hidden(actor, obs)))


def critic_target(state, batch, config):
    actor, critics = (to_numpy(pieces) for pieces in state.targets)
    smoothing = np.clip(config.target_noise * NOISE, -config.target_noise_clip, config.target_noise_clip)
    action = np.clip(mu(actor, batch.next_obs) + smoothing, -1, 1)
    next_q = np.minimum(*(q_of(twin(critics, i), batch.next_obs, action) for i in range(2)))
    return batch.reward + batch.discount * next_q


@pytest.mark.parametrize("config", [CONFIG, TD3Config(hidden=(8,), target_noise=0.0)])
def test_critic_loss_and_gradient_equal_an_independent_form_and_its_finite_differences(config):
    state, batch = fresh_state(config), make_batch(1)
    graded = jax.jit(jax.value_and_grad(td3.critic_loss, has_aux=True), static_argnums=(4, 5))
    (value, _), slopes = graded(state.critics, state.targets, batch, NOISE, NETWORKS, config)
    y = critic_target(state, batch, config)

    def loss(critics):
        errors = [q_of(twin(critics, i), batch.obs, batch.action) - y for i in range(2)]
        return sum((batch.weights * error**2 / 2).mean() for error in errors)

    critics = to_numpy(state.critics)
    assert float(value) == pytest.approx(loss(critics), rel=1e-4)
    assert_close(slopes, finite_differences(loss, critics), atol=1e-3)


@pytest.mark.release
def test_actor_loss_and_gradient_follow_the_first_critic_alone():
    state, batch = fresh_state(), make_batch(2)
    value, slopes = jax.value_and_grad(td3.actor_loss)(state.actor, state.critics, batch.obs, NETWORKS)
    first = twin(to_numpy(state.critics), 0)

    def loss(actor):
        return -q_of(first, batch.obs, mu(actor, batch.obs)).mean()

    actor = to_numpy(state.actor)
    assert float(value) == pytest.approx(loss(actor), rel=1e-4)
    assert_close(slopes, finite_differences(loss, actor))


@pytest.mark.whole
def test_actor_and_targets_move_at_every_second_update_only():
    config = TD3Config(hidden=(8,), target_tau=0.25)
    state = fresh_state(config)
    first, _, _ = update(state, make_batch(3), NOISE, NETWORKS, config)
    second, _, _ = update(first, make_batch(4), NOISE, NETWORKS, config)
    same = jax.tree.map(np.array_equal, (first.actor, first.targets), (state.actor, state.targets))
    assert jax.tree.all(same)
    assert not np.array_equal(first.critics["q.weight"], state.critics["q.weight"])
    assert not np.array_equal(second.actor["action.weight"], state.actor["action.weight"])
    expected = jax.tree.map(lambda old, new: 0.75 * old + 0.25 * new, state.targets, (second.actor, second.critics))
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, atol=1e-6), second.targets, expected))


@pytest.mark.whole
@pytest.mark.parametrize(("count", "padded"), [(4, 0), (3, 1)])
def test_one_call_of_several_updates_equals_single_updates(count, padded):
    algorithm = td3.make(TrainConfig.default("td3", "E").override(hidden=(8,)), INTERFACE)
    assert_one_call_equals_single_updates(algorithm, count, padded)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("before", "count", "delay"), [(0, 4, 2), (0, 1, 2), (1, 1, 2), (2, 5, 3), (6, 4, 4), (0, 3, 4)]
)
def test_the_mean_policy_loss_of_a_call_is_that_of_the_updates_that_had_one(before, count, delay):
    settings = {"hidden": (8,), "learning_rate": 1e-9, "policy_delay": delay}
    algorithm = td3.make(TrainConfig.default("td3", "E").override(**settings), INTERFACE)
    batch = make_batch(6)
    state = algorithm.init(np.random.default_rng(3))._replace(num_updates=jnp.int32(before))
    alone = float(td3.actor_loss(state.actor, state.critics, batch.obs, NETWORKS))
    batches = jax.tree.map(lambda x: jnp.stack([x] * 6), batch)
    metrics = means_of(compile_updates(algorithm)(state, batches, np.int32(count))[2])
    has_one = (before + count) // delay > before // delay
    assert metrics["policy_loss"] == pytest.approx(alone if has_one else np.nan, rel=1e-4, nan_ok=True)
