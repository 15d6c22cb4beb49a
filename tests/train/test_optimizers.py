"""Our Adam against optax's."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp
import optax

from drivetrain.train.optimizers import adam, global_norm


def gradients(seed, scale):
    rng = np.random.default_rng(seed)
    return {"a": jnp.array(scale * rng.normal(size=(3, 4)), jnp.float32), "b": jnp.array(scale * rng.normal(size=5))}


@pytest.mark.parametrize("max_norm", [None, 1.0, 1e6])
def test_adam_steps_as_optax_does_over_many_updates(max_norm):
    ours = adam(1e-2, 1e-5, max_norm)
    clip = optax.identity() if max_norm is None else optax.clip_by_global_norm(max_norm)
    theirs = optax.chain(clip, optax.adam(1e-2, eps=1e-5))
    params = [gradients(0, 1.0), gradients(0, 1.0)]
    states = [ours.init(params[0]), theirs.init(params[1])]
    for step in range(1, 40):
        slopes = gradients(step, 0.1 * step)  # below and above the limit
        for index, optimizer in enumerate((ours, theirs)):
            changes, states[index] = optimizer.update(slopes, states[index])
            params[index] = optax.apply_updates(params[index], changes)
        assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-4, atol=1e-6), *params))


def test_a_longer_gradient_beyond_the_limit_gives_the_same_step():
    optimizer = adam(1e-2, 1e-8, 1e-3)
    params = gradients(0, 1.0)
    steps = [optimizer.update(gradients(1, scale), optimizer.init(params))[0] for scale in (10.0, 10_000.0)]
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-4), *steps))


def test_the_global_norm_is_that_of_all_numbers_together():
    assert float(global_norm({"a": jnp.array([3.0]), "b": jnp.array([[0.0, 4.0]])})) == 5.0
