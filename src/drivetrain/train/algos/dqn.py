"""Deep Q-learning: double, n-step and prioritized by default, dueling as an option.

    y  = R_n + gamma^n Q_target(s_n, argmax_a Q(s_n, a))
    L  = mean_i w_i huber(Q(s_i, a_i) - y_i)
    theta <- Adam(clip(grad L));   every K updates: target <- target + tau (theta - target)

`update` is one update, a pure function; `make_updates` compiles up to U of them into one call.

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
# pyright: reportMissingTypeStubs=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from drivetrain.train.config import DQNConfig
from drivetrain.train.losses import huber, q_target, select, weighted_mean
from drivetrain.train.networks import Network, pack, q_values, unpack


class State(NamedTuple):
    """All that learning changes."""

    params: jax.Array
    """float32[P], the online network."""
    target: jax.Array
    """float32[P], the target network."""
    optimizer: Any
    """Adam's moments, a pytree of optax."""
    num_updates: jax.Array
    """int32, updates so far."""


class Batch(NamedTuple):
    """Transitions as the replay gives them; leading axes [B], or [U, B] for several updates."""

    obs: Any
    """float32[..., num_inputs]."""
    action: Any
    """int64[...]."""
    reward: Any
    """float32[...], n-step return."""
    next_obs: Any
    """float32[..., num_inputs], n steps on, or the last of the episode."""
    discount: Any
    """float32[...], gamma^n, or 0 after termination."""
    weights: Any
    """float32[...], importance weights in 0..1."""


class Metrics(NamedTuple):
    """What an update tells of itself, scalars."""

    loss: jax.Array
    """Weighted Huber loss."""
    q: jax.Array
    """Mean Q of the drawn state-action pairs."""
    gradient_norm: jax.Array
    """Before clipping."""


def optimizer(config: DQNConfig) -> optax.GradientTransformation:
    """Clipped Adam over the flat vector."""
    return optax.chain(
        optax.clip_by_global_norm(config.max_gradient_norm),
        optax.adam(config.learning_rate, eps=config.adam_epsilon),
    )


def init(vector: NDArray[np.float32], config: DQNConfig) -> State:
    """The state before the first update, with online and target network alike."""
    params = jnp.array(vector)
    return State(params, jnp.array(vector), optimizer(config).init(params), jnp.int32(0))


def loss(
    online: dict[str, jax.Array], target: jax.Array, batch: Batch, network: Network, config: DQNConfig
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The loss of one batch, for the online network's pieces: (loss, (TD errors [B], chosen Q [B]))."""
    next_q = q_values(network, unpack(network, target), batch.next_obs, jnp)
    chooser = q_values(network, online, batch.next_obs, jnp) if config.double else next_q
    y = q_target(batch.reward, batch.discount, next_q, chooser.argmax(-1))
    q = select(q_values(network, online, batch.obs, jnp), batch.action)
    return weighted_mean(huber(q - y, config.huber_delta), batch.weights), (q - y, q)


def update(state: State, batch: Batch, network: Network, config: DQNConfig) -> tuple[State, jax.Array, Metrics]:
    """One update on one batch: the new state, |TD error| [B], metrics. Pure."""
    slope, (value, td_errors, q) = gradient(state, batch, network, config)
    steps, moments = optimizer(config).update(slope, state.optimizer)
    params: jax.Array = optax.apply_updates(state.params, steps)  # pyright: ignore[reportAssignmentType]
    num_updates = state.num_updates + 1
    tau = jnp.where(num_updates % config.target_interval == 0, config.target_tau, 0.0)
    # A copy must be exact: target + 1 (params - target) rounds, and does not give params.
    moved = params if config.target_tau == 1 else state.target + tau * (params - state.target)
    target = jnp.where(tau > 0, moved, state.target)
    metrics = Metrics(value, q.mean(), jnp.linalg.norm(slope))
    return State(params, target, moments, num_updates), jnp.abs(td_errors), metrics


def gradient(
    state: State, batch: Batch, network: Network, config: DQNConfig
) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
    """The loss's gradient as a vector [P], and (loss, TD errors [B], chosen Q [B])."""
    # By pieces and then packed: the derivative of taking a vector apart adds up as many padded
    # vectors as there are pieces, which cost 9% of an update (2 x 256).
    pieces = unpack(network, state.params)
    graded = jax.value_and_grad(loss, has_aux=True)
    (value, (td_errors, q)), slopes = graded(pieces, state.target, batch, network, config)
    return pack(network, slopes, jnp), (value, td_errors, q)


Updates = Callable[[State, Batch, Any], tuple[State, jax.Array, Metrics]]


def make_updates(network: Network, config: DQNConfig) -> Updates:
    """Compile `updates(state, batches, count)`: up to U = updates_per_call updates in one call.

    One `lax.scan` over U batches; the first `count` of them are used and the rest skipped, so that a
    remainder costs no second compilation (design/training-updates.md).

    Returns:
        A function giving the new state (the old one is donated), |TD errors| [U, B] of which the
        first `count` rows mean something, and the metrics' means over the `count` updates.
    """

    def updates(state: State, batches: Batch, count: Any) -> tuple[State, jax.Array, Metrics]:
        num_batches, batch_size = batches.reward.shape
        nothing = Metrics(*[jnp.zeros((), jnp.float32)] * len(Metrics._fields))

        def body(carry: Any, item: Any) -> Any:
            state, totals = carry
            index, batch = item
            state, td_error, metrics = jax.lax.cond(
                index < count,
                lambda state: update(state, batch, network, config),
                lambda state: (state, jnp.zeros(batch_size, jnp.float32), nothing),
                state,
            )
            return (state, jax.tree.map(jnp.add, totals, metrics)), td_error

        carry, td_errors = jax.lax.scan(body, (state, nothing), (jnp.arange(num_batches), batches))
        state, totals = carry
        return state, td_errors, jax.tree.map(lambda total: total / count, totals)

    return jax.jit(updates, donate_argnums=0)
