"""Deep deterministic policy gradient, for continuous actions.

    y    = R_n + gamma^n Q_target(s_n, mu_target(s_n))
    L_Q  = mean_i w_i (Q(s_i, a_i) - y_i)^2 / 2
    L_mu = -mean_i Q(s_i, mu(s_i))
    each by Adam;   targets <- targets + tau (online - targets)

Differences from the paper:
- Exploration noise is independent from step to step unless `noise_correlation` makes it an Ornstein-Uhlenbeck process
  (Fujimoto et al. 2018 found no difference).
- No batch normalisation and no weight decay; the critic takes the action at its first layer, and
  layers have 256 and 256 units; PyTorch's initialisation. As in Stable-Baselines3 and TD3's code.
- Prioritized or n-step replay can be chosen; the default is uniform and one step. Importance weights
  apply to the critic's loss alone.
- Several updates per call draw their batches before the call's first update.

Reference: Lillicrap et al. 2016, arXiv:1509.02971.
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.train.algos.critics import Networks, networks_of, q_of
from drivetrain.train.algos.losses import bootstrapped, half_square, moved, weighted_mean
from drivetrain.train.config import DDPGConfig, TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.learner.optimizers import optimizer_of
from drivetrain.train.learner.sharing import ONE_LEARNER, Learners
from drivetrain.train.learner.states import owned
from drivetrain.train.learner.updates import Algorithm, Batch, Metrics
from drivetrain.train.networks import Pieces
from drivetrain.train.networks.joined import packed
from drivetrain.train.policies.policy import deterministic_action


class Params(NamedTuple):
    """Parameters of both networks."""

    actor: Pieces
    """The policy."""
    critic: Pieces
    """Its critic."""


class State(NamedTuple):
    """All that learning changes."""

    online: Params
    """What is learned."""
    target: Params
    """What follows it."""
    optimizers: tuple[Any, Any]
    """Adam's moments for actor and critic."""
    num_updates: jax.Array
    """int32, updates so far."""


def make(config: TrainConfig, interface: Interface) -> Algorithm:
    """DDPG for a run."""
    assert isinstance(config.agent, DDPGConfig)
    agent, networks = config.agent, networks_of(config, interface)
    return Algorithm(
        init=lambda rng: init(networks, agent, rng),
        update=lambda state, batch, learners: update(state, batch, networks, agent, learners),
        policy=lambda state: packed(networks.actor, state.online.actor),
    )


def init(networks: Networks, config: DDPGConfig, rng: np.random.Generator) -> State:
    """The state before the first update, with targets like what they follow."""
    params = Params(*(network.initial(rng) for network in networks))
    online, target = (owned(params) for _ in range(2))
    optimizer = optimizer_of(config)
    return State(online, target, (optimizer.init(online.actor), optimizer.init(online.critic)), jnp.int32(0))


def critic_loss(
    critic: Pieces, target: Params, batch: Batch, networks: Networks
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The critic's loss on one batch: (loss, (TD errors [B], Q [B]))."""
    next_action = deterministic_action(networks.actor, target.actor, batch.next_obs, jnp)
    next_q = q_of(networks.critic, target.critic, batch.next_obs, next_action)
    y = bootstrapped(batch.reward, batch.discount, next_q)
    q = q_of(networks.critic, critic, batch.obs, batch.action)
    return weighted_mean(half_square(q - y), batch.weights), (q - y, q)


def actor_loss(actor: Pieces, critic: Pieces, obs: Any, networks: Networks) -> jax.Array:
    """The actor's loss on one batch: minus the critic's mean opinion of its actions."""
    return -q_of(networks.critic, critic, obs, deterministic_action(networks.actor, actor, obs, jnp)).mean()


def update(
    state: State, batch: Batch, networks: Networks, config: DDPGConfig, learners: Learners = ONE_LEARNER
) -> tuple[State, jax.Array, Metrics]:
    """One update on one batch: the new state, |TD error| [B], metrics. Pure."""
    optimizer = optimizer_of(config)
    actor_moments, critic_moments = state.optimizers
    graded = jax.value_and_grad(critic_loss, has_aux=True)
    (value, (td_errors, q)), slopes = graded(state.online.critic, state.target, batch, networks)
    gradients, _ = learners.mean_gradients(slopes)
    critic, critic_moments, norm = optimizer.step(gradients, critic_moments, state.online.critic)
    policy_value, actor_slopes = jax.value_and_grad(actor_loss)(state.online.actor, critic, batch.obs, networks)
    gradients, _ = learners.mean_gradients(actor_slopes)
    actor, actor_moments, _ = optimizer.step(gradients, actor_moments, state.online.actor)
    online = Params(actor, critic)
    target = moved(state.target, online, config.target_tau)
    metrics = {"loss": value, "q": q.mean(), "policy_loss": policy_value, "gradient_norm": norm}
    new = State(online, target, (actor_moments, critic_moments), state.num_updates + 1)
    return new, jnp.abs(td_errors), metrics
