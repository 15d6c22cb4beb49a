"""Deep Q-learning: double, n-step and prioritized by default, dueling as an option.

    y  = R_n + gamma^n Q_target(s_n, argmax_a Q(s_n, a))
    L  = mean_i w_i huber(Q(s_i, a_i) - y_i)
    theta <- Adam(clip(grad L));   every K updates: target <- target + tau (theta - target)

Differences from the papers:
- Adam and a clipped global gradient norm, where Mnih et al. 2015 use RMSProp and clip TD errors
  (Huber is the latter).
- Priorities of the U batches of one call are all drawn before the call's updates are known.
- A truncated episode bootstraps from its last observation; only termination ends the return.
- tau < 1 with K = 1 is the soft target of DDPG rather than DQN's copy.

References: Mnih et al. 2015 (Nature 518); van Hasselt et al. 2016, arXiv:1509.06461; Schaul et al.
2016, arXiv:1511.05952; Wang et al. 2016, arXiv:1511.06581; Hessel et al. 2018, arXiv:1710.02298.
"""

# JAX and optax annotate parts of their interfaces only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from drivetrain.train.config import DQNConfig, TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.losses import huber, moved, q_target, select, weighted_mean
from drivetrain.train.networks import Network, Pieces
from drivetrain.train.optimizers import global_norm, optimizer_of
from drivetrain.train.policies import policy_network, q_values
from drivetrain.train.updates import ONE_LEARNER, Algorithm, Batch, Learners, Metrics


class State(NamedTuple):
    """All that learning changes."""

    params: Pieces
    """The online network."""
    target: Pieces
    """The target network."""
    optimizer: Any
    """Adam's moments."""
    num_updates: jax.Array
    """int32, updates so far."""


def make(config: TrainConfig, interface: Interface) -> Algorithm:
    """DQN for a run."""
    assert isinstance(config.agent, DQNConfig)
    network, agent = policy_network(config, interface), config.agent
    return Algorithm(
        init=lambda rng: init(network.initial(rng), agent),
        update=lambda state, batch, learners: update(state, batch, network, agent, learners),
        policy=lambda state: state.params,
    )


def optimizer(config: DQNConfig) -> optax.GradientTransformation:
    """On the clipped gradient."""
    return optimizer_of(config, config.max_gradient_norm)


def init(pieces: Pieces, config: DQNConfig) -> State:
    """The state before the first update, with online and target network alike."""
    params, target = (jax.tree.map(jnp.array, pieces) for _ in range(2))
    return State(params, target, optimizer(config).init(params), jnp.int32(0))


def loss(
    online: Pieces, target: Pieces, batch: Batch, network: Network, config: DQNConfig
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The loss of one batch: (loss, (TD errors [B], chosen Q [B]))."""
    next_q = q_values(network, target, batch.next_obs, jnp)
    chooser = q_values(network, online, batch.next_obs, jnp) if config.double else next_q
    y = q_target(batch.reward, batch.discount, next_q, chooser.argmax(-1))
    q = select(q_values(network, online, batch.obs, jnp), batch.action)
    return weighted_mean(huber(q - y, config.huber_delta), batch.weights), (q - y, q)


def update(
    state: State, batch: Batch, network: Network, config: DQNConfig, learners: Learners = ONE_LEARNER
) -> tuple[State, jax.Array, Metrics]:
    """One update on one batch: the new state, |TD error| [B], metrics. Pure."""
    graded = jax.value_and_grad(loss, has_aux=True)
    (value, (td_errors, q)), slopes = graded(state.params, state.target, batch, network, config)
    slopes = learners.mean(slopes)
    steps, moments = optimizer(config).update(slopes, state.optimizer, state.params)
    params: Any = optax.apply_updates(state.params, steps)
    num_updates = state.num_updates + 1
    target = jax.lax.cond(
        num_updates % config.target_interval == 0,
        lambda: moved(state.target, params, config.target_tau),
        lambda: state.target,
    )
    metrics = {"loss": value, "q": q.mean(), "gradient_norm": global_norm(slopes)}
    return State(params, target, moments, num_updates), jnp.abs(td_errors), metrics
