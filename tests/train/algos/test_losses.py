"""Losses against values worked out by hand, and gradients against finite differences."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp

from drivetrain.train.algos.losses import bootstrapped, huber, select, weighted_mean


def test_the_target_bootstraps_from_the_target_network_at_the_chosen_action():
    reward = jnp.array([1.0, 2.0, 3.0])
    discount = jnp.array([0.9, 0.0, 0.5])
    next_q = jnp.array([[10.0, 20.0], [30.0, 40.0], [50.0, 60.0]])
    target = bootstrapped(reward, discount, select(next_q, jnp.array([1, 0, 0])))
    assert target.tolist() == pytest.approx([1 + 0.9 * 20, 2.0, 3 + 0.5 * 50])


def test_no_gradient_flows_through_the_target():
    def total(next_q):
        return bootstrapped(jnp.ones(1), jnp.ones(1), select(next_q, jnp.array([1]))).sum()

    assert not jax.grad(total)(jnp.ones((1, 2))).any()


def test_huber_is_half_the_square_inside_and_linear_outside():
    errors = jnp.array([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0])
    assert huber(errors, 1.0).tolist() == pytest.approx([2.5, 0.5, 0.125, 0.0, 0.125, 0.5, 2.5])
    assert huber(jnp.array([4.0]), 2.0).tolist() == pytest.approx([2.0 * (4.0 - 1.0)])


def test_the_slope_of_huber_is_the_clipped_error():
    errors = jnp.array([-3.0, -0.7, 0.2, 5.0])
    slopes = jax.vmap(jax.grad(lambda error: huber(error, 1.0)))(errors)
    assert np.allclose(slopes, np.clip(errors, -1.0, 1.0))


def test_select_and_weighted_mean():
    q = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    assert select(q, jnp.array([1, 0])).tolist() == [2.0, 3.0]
    assert float(weighted_mean(jnp.array([2.0, 4.0]), jnp.array([1.0, 0.5]))) == 2.0
