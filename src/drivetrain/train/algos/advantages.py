"""Generalised advantage estimates over a rollout."""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Ends(NamedTuple):
    """How the steps of a rollout ended, bool [T, N] each."""

    terminated: jax.Array
    """In a state worth nothing more."""
    truncated: jax.Array
    """The episode was cut off in a state that has a value."""


def next_values(values: jax.Array, last_values: jax.Array, ends: Ends) -> jax.Array:
    """The value of what each step led to: [T, N].

    Args:
        values: [T, N], V of the observations acted on.
        last_values: [T, N], V of what a step led to, where it was truncated; and in row T-1.
        ends: Of each step. After one, the next row's observation is of another episode.
    """
    following = jnp.concatenate([values[1:], last_values[-1:]])
    followed = jnp.where(ends.truncated, last_values, following)
    return jnp.where(ends.terminated, 0.0, followed)


def gae(
    reward: jax.Array, values: jax.Array, following: jax.Array, ends: Ends, gamma: float, gae_lambda: float
) -> jax.Array:
    """Advantages A_t = delta_t + gamma lambda A_(t+1), delta_t = r_t + gamma V(s_(t+1)) - V(s_t): [T, N].

    The sum does not reach across the end of an episode, of whichever kind.

    Args:
        reward: [T, N].
        values: [T, N].
        following: [T, N], from `next_values`.
        ends: Of each step.
        gamma: Discount per step.
        gae_lambda: In 0..1.

    Reference: Schulman et al. 2016, arXiv:1506.02438, equation 16.
    """
    deltas = reward + gamma * following - values
    decay = jnp.where(ends.terminated | ends.truncated, 0.0, gamma * gae_lambda)

    def back(later: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta, decay = step
        advantage = delta + decay * later
        return advantage, advantage

    _, advantages = jax.lax.scan(back, jnp.zeros_like(values[0]), (deltas, decay), reverse=True, unroll=4)
    return advantages
