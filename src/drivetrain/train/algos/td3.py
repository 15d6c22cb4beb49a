"""Twin delayed deep deterministic policy gradient, for continuous actions.

    a' = clip(mu_target(s_n) + clip(noise, -c, c), -1, 1);   y = R_n + gamma^n min_j Q_target_j(s_n, a')
    L_Q  = sum_j mean_i w_i (Q_j(s_i, a_i) - y_i)^2 / 2
    every d-th update:  L_mu = -mean_i Q_1(s_i, mu(s_i));   targets <- targets + tau (online - targets)
    each by Adam

Differences from the paper:
- Prioritized or n-step replay can be chosen; the default is uniform and one step. Importance weights
  apply to the critics' loss alone.
- Several updates per call draw their batches before the call's first update.
- Actions are in -1..1; the environment's bounds are put back where it is stepped.
- Layers of 256 and 256 units by default, and PyTorch's initialisation.

Reference: Fujimoto et al. 2018, arXiv:1802.09477.
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.train.algos.critics import Networks, networks_of, noise, q_of
from drivetrain.train.algos.losses import bootstrapped, half_square, moved, weighted_mean
from drivetrain.train.config import TD3Config, TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.learner.optimizers import optimizer_of
from drivetrain.train.learner.sharing import ONE_LEARNER, Learners
from drivetrain.train.learner.states import owned
from drivetrain.train.learner.updates import Algorithm, Batch, Metrics, Seldom, noise_key
from drivetrain.train.networks import Pieces, first_twin, initial_twins
from drivetrain.train.networks.joined import packed
from drivetrain.train.policies.policy import deterministic_action


class State(NamedTuple):
    """All that learning changes."""

    actor: Pieces
    """The policy."""
    critics: Pieces
    """Both critics; every piece has a leading axis [2]."""
    targets: tuple[Pieces, Pieces]
    """Targets of actor and critics."""
    optimizers: tuple[Any, Any]
    """Adam's moments for actor and critics."""
    key: jax.Array
    """Of the random stream; update k draws from `fold_in(key, k)`."""
    num_updates: jax.Array
    """int32, updates so far."""


def make(config: TrainConfig, interface: Interface) -> Algorithm:
    """TD3 for a run."""
    assert isinstance(config.agent, TD3Config)
    agent, networks = config.agent, networks_of(config, interface)

    def draw_and_update(state: State, batch: Batch, learners: Learners) -> tuple[State, jax.Array, Metrics]:
        drawn = noise(state.key, state.num_updates, batch.action.shape, learners)
        return update(state, batch, drawn, networks, agent, learners)

    return Algorithm(
        init=lambda rng: init(networks, agent, rng),
        update=draw_and_update,
        policy=lambda state: packed(networks.actor, state.actor),
    )


def init(networks: Networks, config: TD3Config, rng: np.random.Generator) -> State:
    """The state before the first update, with targets like what they follow."""
    pieces = networks.actor.initial(rng)
    twins = initial_twins(networks.critic, rng)
    actor, actor_target = (owned(pieces) for _ in range(2))
    critics, critics_target = (owned(twins) for _ in range(2))
    optimizer = optimizer_of(config)
    moments = (optimizer.init(actor), optimizer.init(critics))
    return State(actor, critics, (actor_target, critics_target), moments, noise_key(rng), jnp.int32(0))


def critic_loss(
    critics: Pieces, targets: tuple[Pieces, Pieces], batch: Batch, noise: Any, networks: Networks, config: TD3Config
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The critics' loss on one batch, for standard normal noise [B, A]: (loss, (TD errors, Q) [2, B])."""
    smoothing = jnp.clip(config.target_noise * noise, -config.target_noise_clip, config.target_noise_clip)
    next_action = deterministic_action(networks.actor, targets[0], batch.next_obs, jnp)
    next_action = jnp.clip(next_action + smoothing, -1.0, 1.0)
    next_q = q_of(networks.critic, targets[1], batch.next_obs, next_action).min(0)
    y = bootstrapped(batch.reward, batch.discount, next_q)
    q = q_of(networks.critic, critics, batch.obs, batch.action)
    return 2 * weighted_mean(half_square(q - y), batch.weights), (q - y, q)


def actor_loss(actor: Pieces, critics: Pieces, obs: Any, networks: Networks) -> jax.Array:
    """The actor's loss on one batch: minus the first critic's mean opinion of its actions."""
    action = deterministic_action(networks.actor, actor, obs, jnp)
    return -q_of(networks.critic, first_twin(critics), obs, action).mean()


def update(
    state: State, batch: Batch, noise: Any, networks: Networks, config: TD3Config, learners: Learners = ONE_LEARNER
) -> tuple[State, jax.Array, Metrics]:
    """One update on one batch: the new state, mean |TD error| of the critics [B], metrics. Pure."""
    optimizer = optimizer_of(config)
    actor_moments, critic_moments = state.optimizers
    graded = jax.value_and_grad(critic_loss, has_aux=True)
    (value, (td_errors, q)), slopes = graded(state.critics, state.targets, batch, noise, networks, config)
    gradients, _ = learners.mean_gradients(slopes)
    critics, critic_moments, norm = optimizer.step(gradients, critic_moments, state.critics)
    num_updates = state.num_updates + 1

    def delayed() -> tuple[Any, Any, Any, Seldom]:
        policy_value, actor_slopes = jax.value_and_grad(actor_loss)(state.actor, critics, batch.obs, networks)
        gradients, _ = learners.mean_gradients(actor_slopes)
        actor, moments, _ = optimizer.step(gradients, actor_moments, state.actor)
        targets = moved(state.targets, (actor, critics), config.target_tau)
        return actor, moments, targets, Seldom(policy_value, jnp.ones_like(policy_value))

    actor, actor_moments, targets, policy_value = jax.lax.cond(
        num_updates % config.policy_delay == 0,
        delayed,
        lambda: (state.actor, actor_moments, state.targets, Seldom(jnp.zeros_like(value), jnp.zeros_like(value))),
    )
    metrics = {"loss": value, "q": q.mean(), "policy_loss": policy_value, "gradient_norm": norm}
    new = State(actor, critics, targets, (actor_moments, critic_moments), state.key, num_updates)
    return new, jnp.abs(td_errors).mean(0), metrics
