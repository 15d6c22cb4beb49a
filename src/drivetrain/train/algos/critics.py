"""What the algorithms with an actor and critics share: their networks, Q(s, a), and noise by update.

Functions, not a parent class: each algorithm still reads from top to bottom in its own file.
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.learner.noise import key_of_update
from drivetrain.train.learner.sharing import Learners
from drivetrain.train.networks import MLP, Network, Pieces, build, for_updates
from drivetrain.train.policies.policy import policy_network


class Networks(NamedTuple):
    """The shapes of the networks."""

    actor: Network
    """Observation to what the policy needs."""
    critic: Network
    """Observation and action to Q."""


def networks_of(config: TrainConfig, interface: Interface) -> Networks:
    """The actor of a run, and a critic with hidden layers of the same widths, as learners compute them."""
    critic = MLP(num_inputs=interface.num_actions, hidden=config.agent.hidden, heads=(("q", 1),))
    network = build(interface.observations, critic, config.agent.torso, "critic")
    precision = config.run.precision
    return Networks(for_updates(policy_network(config, interface), precision), for_updates(network, precision))


def q_of(network: Network, pieces: Pieces, obs: Any, action: Any) -> jax.Array:
    """Q(s, a): [B], of twins [2, B]."""
    return network.apply(pieces, obs, jnp, action)["q"][..., 0]


def noise(key: jax.Array, num_updates: jax.Array, shape: tuple[int, ...], learners: Learners) -> jax.Array:
    """Standard normal noise of the update after `num_updates` of them, for this learner's rows: [rows, ...]."""
    return learners.normal(key_of_update(key, num_updates), shape)
