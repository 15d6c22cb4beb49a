"""The mathematics of the algorithms, as pure functions of JAX arrays.

Shapes: B transitions per batch, A actions.
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt


def select(values: jax.Array, action: jax.Array) -> jax.Array:
    """What belongs to the chosen actions: [B, A, ...] and int[B] to [B, ...]."""
    return jnp.take_along_axis(values, action.reshape(-1, *[1] * (values.ndim - 1)), axis=1)[:, 0]


def projected(
    probabilities: jax.Array, reward: jax.Array, discount: jax.Array, atoms: npt.NDArray[np.float32]
) -> jax.Array:
    """The distribution of R + discount * Z on the atoms of Z, which are evenly spaced.

    The probability of each shifted atom goes to its two neighbours in proportion to nearness, and to
    the ends where it lies beyond them.

    Args:
        probabilities: [B, N] of Z at the bootstrap observations.
        reward: [B] n-step returns.
        discount: [B] gamma^n, 0 where the episode terminated within the n steps.
        atoms: [N].

    Returns:
        [B, N], through which no gradient flows.

    Reference: Bellemare et al. 2017, arXiv:1707.06887, eq. 7.
    """
    spacing = (atoms[-1] - atoms[0]) / (len(atoms) - 1)
    shifted = jnp.clip(reward[:, None] + discount[:, None] * atoms, atoms[0], atoms[-1])
    distance = jnp.abs(shifted[:, None, :] - atoms[:, None]) / spacing  # [B, to, from]
    return jax.lax.stop_gradient((jnp.maximum(1 - distance, 0) * probabilities[:, None, :]).sum(-1))


def cross_entropy(target: jax.Array, logits: jax.Array) -> jax.Array:
    """-sum target * log softmax(logits) over the last axis."""
    return -(target * jax.nn.log_softmax(logits)).sum(-1)


def entropy(probabilities: jax.Array) -> jax.Array:
    """-sum p log p over the last axis."""
    return -jax.scipy.special.xlogy(probabilities, probabilities).sum(-1)


def huber(error: jax.Array, delta: float) -> jax.Array:
    """error^2 / 2 up to |error| = delta, linear with slope delta beyond."""
    size = jnp.abs(error)
    inside = jnp.minimum(size, delta)
    return inside * (size - 0.5 * inside)


def weighted_mean(losses: jax.Array, weights: jax.Array) -> jax.Array:
    """Mean of losses times importance weights (Schaul et al. 2016, section 3.4)."""
    return jnp.mean(losses * weights)


def bootstrapped(reward: jax.Array, discount: jax.Array, next_value: jax.Array) -> jax.Array:
    """The target y = R + discount * V(s') of [B] n-step returns, through which no gradient flows."""
    return jax.lax.stop_gradient(reward + discount * next_value)


def half_square(error: jax.Array) -> jax.Array:
    """error^2 / 2, whose slope is the error."""
    return 0.5 * error * error


def moved(target: Any, online: Any, tau: float) -> Any:
    """Each array of `target` moved by a share `tau` of the way to `online`; 1 copies it exactly.

    Reference: Lillicrap et al. 2016, arXiv:1509.02971, section 3 (soft updates).
    """
    if tau == 1:  # target + 1 * (online - target) rounds, and does not give online
        return online
    return jax.tree.map(lambda old, new: old + tau * (new - old), target, online)


def squashed_sample(mean: jax.Array, log_std: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A sample a = tanh(mean + std * noise) and its log probability density.

    log pi(a) = sum_i log N(u_i; mean_i, std_i) - log(1 - tanh(u_i)^2), the latter written as
    2 (log 2 - |u| - log(1 + exp(-2 |u|))), which does not cancel for large |u|. (XLA computes log1p, which is better
    where that exponential is beneath the rounding of |u|, one number at a time: 2% of an update.)

    Args:
        mean: [B, A].
        log_std: [B, A].
        noise: [B, A], standard normal.

    Returns:
        (actions [B, A] in -1..1, log densities [B]).

    Reference: Haarnoja et al. 2018, arXiv:1801.01290, appendix C.
    """
    raw = mean + jnp.exp(log_std) * noise
    normal = -0.5 * noise * noise - log_std - 0.5 * math.log(2 * math.pi)
    size = jnp.abs(raw)
    squashing = 2 * (math.log(2) - size - jnp.log(1 + jnp.exp(-2 * size)))
    return jnp.tanh(raw), (normal - squashing).sum(-1)
