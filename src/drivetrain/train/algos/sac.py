"""Soft actor-critic with twin critics and an adjusted temperature, for continuous actions.

    a', log pi' ~ pi(s_n);   y = R_n + gamma^n (min_j Q_target_j(s_n, a') - alpha log pi')
    L_Q     = sum_j mean_i w_i (Q_j(s_i, a_i) - y_i)^2 / 2
    L_pi    = mean_i alpha log pi(a~_i | s_i) - min_j Q_j(s_i, a~_i),   a~ ~ pi(s)
    L_alpha = -log alpha mean_i (log pi(a~_i | s_i) + target entropy)
    each by Adam;   target <- target + tau (critics - target)

The critics step first, and the actor is graded by the new ones; both use the temperature of before
the update, as Stable-Baselines3 does, so that runs can be compared.

Differences from the papers:
- Prioritized or n-step replay can be chosen; the default is uniform and one step. Importance weights
  apply to the critics' loss alone.
- Several updates per call draw their batches before the call's first update.
- Actions are in -1..1; the environment's bounds are put back where it is stepped.

References: Haarnoja et al. 2018, arXiv:1801.01290; Haarnoja et al. 2018b, arXiv:1812.05905.
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.train.algos.critics import Networks, networks_of, noise, q_of
from drivetrain.train.algos.losses import bootstrapped, half_square, moved, squashed_sample, weighted_mean
from drivetrain.train.config import SACConfig, TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.learner.optimizers import Optimizer, adam, optimizer_of
from drivetrain.train.learner.sharing import ONE_LEARNER, Learners
from drivetrain.train.learner.states import owned
from drivetrain.train.learner.updates import Algorithm, Batch, Metrics, noise_key
from drivetrain.train.networks import Pieces, initial_twins
from drivetrain.train.networks.joined import packed
from drivetrain.train.policies.policy import gaussian


class State(NamedTuple):
    """All that learning changes."""

    actor: Pieces
    """The policy."""
    critics: Pieces
    """Both critics; every piece has a leading axis [2]."""
    targets: Pieces
    """Their targets, alike."""
    log_alpha: jax.Array
    """float32, logarithm of the temperature."""
    optimizers: tuple[Any, Any, Any]
    """Adam's moments for actor, critics, temperature."""
    key: jax.Array
    """Of the random stream; update k draws from `fold_in(key, k)`."""
    num_updates: jax.Array
    """int32, updates so far."""


class Draws(NamedTuple):
    """What chance contributes to an update: standard normal [B, A] each."""

    bootstrap: Any
    """For the action after the window."""
    policy: Any
    """For the action that the actor is graded by."""


def make(config: TrainConfig, interface: Interface) -> Algorithm:
    """SAC for a run."""
    assert isinstance(config.agent, SACConfig)
    agent, networks = config.agent, networks_of(config, interface)

    def draw_and_update(state: State, batch: Batch, learners: Learners) -> tuple[State, jax.Array, Metrics]:
        num_rows, num_actions = batch.action.shape
        drawn = noise(state.key, state.num_updates, (num_rows, 2, num_actions), learners)
        return update(state, batch, Draws(drawn[:, 0], drawn[:, 1]), networks, agent, learners)

    return Algorithm(
        init=lambda rng: init(networks, agent, rng),
        update=draw_and_update,
        policy=lambda state: packed(networks.actor, state.actor),
    )


def init(networks: Networks, config: SACConfig, rng: np.random.Generator) -> State:
    """The state before the first update, with critics and targets alike."""
    actor = owned(networks.actor.initial(rng))
    twins = initial_twins(networks.critic, rng)
    critics, targets = (owned(twins) for _ in range(2))
    log_alpha = jnp.log(jnp.float32(config.initial_temperature))
    optimizer, alpha_optimizer = optimizers_of(config)
    moments = (optimizer.init(actor), optimizer.init(critics), alpha_optimizer.init(log_alpha))
    return State(actor, critics, targets, log_alpha, moments, noise_key(rng), jnp.int32(0))


def optimizers_of(config: SACConfig) -> tuple[Optimizer, Optimizer]:
    """Of the networks, as asked; of the temperature Adam always: one number, which no weight decay should move."""
    return optimizer_of(config), adam(config.learning_rate, config.adam_epsilon)


def critic_loss(
    critics: Pieces, state: State, batch: Batch, noise: Any, networks: Networks
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The critics' loss on one batch: (loss, (TD errors [2, B], Q [2, B]))."""
    next_action, next_log_pi = squashed_sample(*gaussian(networks.actor, state.actor, batch.next_obs, jnp), noise)
    next_q = q_of(networks.critic, state.targets, batch.next_obs, next_action).min(0)
    y = bootstrapped(batch.reward, batch.discount, next_q - jnp.exp(state.log_alpha) * next_log_pi)
    q = q_of(networks.critic, critics, batch.obs, batch.action)
    return 2 * weighted_mean(half_square(q - y), batch.weights), (q - y, q)


def actor_loss(
    actor: Pieces, critics: Pieces, alpha: jax.Array, obs: Any, noise: Any, networks: Networks
) -> tuple[jax.Array, jax.Array]:
    """The actor's loss on one batch: (loss, mean log probability of its actions)."""
    action, log_pi = squashed_sample(*gaussian(networks.actor, actor, obs, jnp), noise)
    q = q_of(networks.critic, critics, obs, action).min(0)
    return (alpha * log_pi - q).mean(), log_pi.mean()


def update(
    state: State, batch: Batch, draws: Draws, networks: Networks, config: SACConfig, learners: Learners = ONE_LEARNER
) -> tuple[State, jax.Array, Metrics]:
    """One update on one batch: the new state, mean |TD error| of the critics [B], metrics. Pure."""
    optimizer, alpha_optimizer = optimizers_of(config)
    actor_moments, critic_moments, alpha_moments = state.optimizers

    graded = jax.value_and_grad(critic_loss, has_aux=True)
    (value, (td_errors, q)), slopes = graded(state.critics, state, batch, draws.bootstrap, networks)
    gradients, _ = learners.mean_gradients(slopes)
    critics, critic_moments, norm = optimizer.step(gradients, critic_moments, state.critics)

    alpha = jnp.exp(state.log_alpha)
    graded = jax.value_and_grad(actor_loss, has_aux=True)
    (policy_value, log_pi), actor_slopes = graded(state.actor, critics, alpha, batch.obs, draws.policy, networks)
    gradients, log_pi = learners.mean_gradients(actor_slopes, log_pi)
    actor, actor_moments, _ = optimizer.step(gradients, actor_moments, state.actor)

    log_alpha = state.log_alpha
    if config.learn_temperature:
        wanted = -batch.action.shape[-1] if config.target_entropy is None else config.target_entropy
        log_alpha, alpha_moments, _ = alpha_optimizer.step(-(log_pi + wanted), alpha_moments, log_alpha)

    targets = moved(state.targets, critics, config.target_tau)
    moments = (actor_moments, critic_moments, alpha_moments)
    metrics = {
        "loss": value,
        "q": q.mean(),
        "policy_loss": policy_value,
        "entropy": -log_pi,
        "temperature": alpha,
        "gradient_norm": norm,
    }
    new = State(actor, critics, targets, log_alpha, moments, state.key, state.num_updates + 1)
    return new, jnp.abs(td_errors).mean(0), metrics
