"""DDPG: losses and gradients against float64 NumPy and finite differences."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
from written_out import (
    ACTIONS,
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
)

from drivetrain.train.algos import ddpg
from drivetrain.train.algos.critics import Networks
from drivetrain.train.config import DDPGConfig, TrainConfig
from drivetrain.train.networks import MLP

CONFIG = DDPGConfig(hidden=(8,), target_tau=0.25)
NETWORKS = Networks(
    MLP(num_inputs=INPUTS, hidden=(8,), heads=(("action", ACTIONS),)),
    MLP(num_inputs=INPUTS + ACTIONS, hidden=(8,), heads=(("q", 1),)),
)
update = jax.jit(ddpg.update, static_argnums=(2, 3))


def fresh_state():
    state = ddpg.init(NETWORKS, CONFIG, np.random.default_rng(0))
    return state._replace(target=ddpg.init(NETWORKS, CONFIG, np.random.default_rng(9)).online)


def mu(actor, obs):
    return np.tanh(layer(actor, "action", hidden(actor, obs)))


def test_critic_loss_and_gradient_equal_an_independent_form_and_its_finite_differences():
    state, batch = fresh_state(), make_batch(1)
    graded = jax.jit(jax.value_and_grad(ddpg.critic_loss, has_aux=True), static_argnums=(3,))
    (value, (td_errors, _)), slopes = graded(state.online.critic, state.target, batch, NETWORKS)
    target = ddpg.Params(*(to_numpy(pieces) for pieces in state.target))
    y = batch.reward + batch.discount * q_of(target.critic, batch.next_obs, mu(target.actor, batch.next_obs))

    def loss(critic):
        return (batch.weights * (q_of(critic, batch.obs, batch.action) - y) ** 2 / 2).mean()

    critic = to_numpy(state.online.critic)
    assert float(value) == pytest.approx(loss(critic), rel=1e-4)
    assert_close(slopes, finite_differences(loss, critic), atol=1e-3)
    assert np.allclose(td_errors, q_of(critic, batch.obs, batch.action) - y, atol=1e-4)


def test_actor_loss_and_gradient_equal_an_independent_form_and_its_finite_differences():
    state, batch = fresh_state(), make_batch(2)
    value, slopes = jax.value_and_grad(ddpg.actor_loss)(state.online.actor, state.online.critic, batch.obs, NETWORKS)
    critic = to_numpy(state.online.critic)

    def loss(actor):
        return -q_of(critic, batch.obs, mu(actor, batch.obs)).mean()

    actor = to_numpy(state.online.actor)
    assert float(value) == pytest.approx(loss(actor), rel=1e-4)
    assert_close(slopes, finite_differences(loss, actor))


def test_an_update_grades_the_actor_by_the_new_critic_and_moves_the_targets_by_their_share():
    state, batch = fresh_state(), make_batch(3)
    new, _, metrics = update(state, batch, NETWORKS, CONFIG)
    graded_by_new = ddpg.actor_loss(state.online.actor, new.online.critic, batch.obs, NETWORKS)
    assert float(metrics["policy_loss"]) == pytest.approx(float(graded_by_new), rel=1e-5)
    expected = jax.tree.map(lambda old, online: 0.75 * old + 0.25 * online, state.target, new.online)
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, atol=1e-6), new.target, expected))


@pytest.mark.parametrize(("count", "padded"), [(4, 0), (3, 1)])
def test_one_call_of_several_updates_equals_single_updates(count, padded):
    algorithm = ddpg.make(TrainConfig.default("ddpg", "E").override(hidden=(8,)), INTERFACE)
    assert_one_call_equals_single_updates(algorithm, count, padded)
