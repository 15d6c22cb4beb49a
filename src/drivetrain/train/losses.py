"""The mathematics of the algorithms, as pure functions of JAX arrays.

Shapes: B transitions per batch, A actions.
"""

import jax
import jax.numpy as jnp


def select(q: jax.Array, action: jax.Array) -> jax.Array:
    """Q of the chosen actions: [B, A] and int[B] to [B]."""
    return jnp.take_along_axis(q, action[:, None], axis=1)[:, 0]


def q_target(reward: jax.Array, discount: jax.Array, next_q: jax.Array, next_action: jax.Array) -> jax.Array:
    """The target y = R + discount * Q_target(s', a').

    Args:
        reward: [B] n-step returns.
        discount: [B] gamma^n, 0 where the episode terminated within the n steps.
        next_q: [B, A] target network at the bootstrap observations.
        next_action: int[B] its actions: the target's own argmax (DQN) or the online network's
            (double DQN, van Hasselt et al. 2016, eq. 4).

    Returns:
        [B], through which no gradient flows.
    """
    return jax.lax.stop_gradient(reward + discount * select(next_q, next_action))


def huber(error: jax.Array, delta: float) -> jax.Array:
    """error^2 / 2 up to |error| = delta, linear with slope delta beyond."""
    size = jnp.abs(error)
    inside = jnp.minimum(size, delta)
    return inside * (size - 0.5 * inside)


def weighted_mean(losses: jax.Array, weights: jax.Array) -> jax.Array:
    """Mean of losses times importance weights (Schaul et al. 2016, section 3.4)."""
    return jnp.mean(losses * weights)
