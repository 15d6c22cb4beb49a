"""An off-policy algorithm as a record of pure functions, and U of its updates in one compiled call.

algos/X.make(config, interface)      -> Algorithm(init, update, policy)
compile_updates(algorithm, learners) -> updates(state, batches [U, B], count): state, TD errors, metrics, policy

With M learners each holds the whole state and B / M rows of every batch (sharing.py).
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.learner.sharing import EACH, ONE_LEARNER, ROWS, WHOLE, Learners, compiled

Metrics = dict[str, Any]
"""What an update tells of itself: name, scalar; or Seldom."""


class Seldom(NamedTuple):
    """A scalar that not every update has: summed up over those that have, then their mean."""

    total: Any
    """The scalar; 0 of an update that has none."""
    count: Any
    """1; 0 likewise."""


class Batch(NamedTuple):
    """Transitions as the replay gives them; leading axes [B], or [U, B] for several updates."""

    obs: Any
    """As stored, [..., *shape]: an array, or a dict of arrays by entry."""
    action: Any
    """int32[...], or float32[..., num_actions] in -1..1."""
    reward: Any
    """float32[...], n-step return."""
    next_obs: Any
    """Likewise, n steps on, or the last of the episode."""
    discount: Any
    """float32[...], gamma^n, or 0 after termination."""
    weights: Any
    """float32[...], importance weights in 0..1."""


class Algorithm(NamedTuple):
    """An off-policy algorithm for one network and one environment's interface."""

    init: Callable[[np.random.Generator], Any]
    """The state before the first update: a NamedTuple of arrays with an int32 `num_updates`. The
    generator gives the acting network's parameters first, as `Network.initial` draws them."""
    update: Callable[[Any, Batch, Learners], tuple[Any, jax.Array, Metrics]]
    """One update on this learner's rows of a batch: the new state, the same for every learner; |TD errors|
    of the rows; metrics, means over the rows. Pure."""
    policy: Callable[[Any], jax.Array]
    """The acting network's parameters in a state, as one vector (`networks.pack`). Pure."""


Updates = Callable[[Any, Batch, Any], tuple[Any, jax.Array, Metrics, jax.Array]]


def compile_updates(algorithm: Algorithm, learners: Learners = ONE_LEARNER, *, same_bits: bool = False) -> Updates:
    """Compile `updates(state, batches, count)`: up to U updates in one call.

    One `lax.scan` over U batches; the first `count` of them are used and the rest skipped, so that a
    remainder costs no second compilation. Several learners are as many devices, each with its rows
    of every batch (design/training-updates.md, design/training-learners.md).

    Args:
        algorithm: Whose updates.
        learners: They must divide the batches, and there must be as many devices; give `updates` a state that was
            made ready by `sharing.for_everyone`.
        same_bits: See `sharing.compiled`.

    Returns:
        A function giving the new state (the old one is donated), |TD errors| [U, B] of which the
        first `count` rows mean something, the metrics' means over the `count` updates, for `means_of`, and the new
        state's policy.
    """

    def updates(state: Any, batches: Batch, count: Any) -> tuple[Any, jax.Array, Metrics, jax.Array]:
        num_batches = batches.reward.shape[0]
        first = jax.tree.map(lambda x: x[0], batches)
        _, *shapes = jax.eval_shape(lambda state, batch: algorithm.update(state, batch, learners), state, first)
        no_errors, nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), tuple(shapes))

        def body(carry: Any, item: Any) -> Any:
            state, totals = carry
            index, batch = item
            state, td_errors, metrics = jax.lax.cond(
                index < count,
                lambda state: algorithm.update(state, batch, learners),
                lambda state: (state, no_errors, nothing),
                state,
            )
            return (state, jax.tree.map(jnp.add, totals, metrics)), td_errors

        carry, td_errors = jax.lax.scan(body, (state, nothing), (jnp.arange(num_batches), batches))
        state, totals = carry
        # Whoever reads them takes the learners' mean (`means_of`): one exchange less, of a call for one update a tenth.
        metrics = learners.apart({name: _mean(total, count) for name, total in totals.items()})
        return state, td_errors, metrics, algorithm.policy(state)

    return compiled(updates, learners, (WHOLE, ROWS, WHOLE), (WHOLE, ROWS, EACH, WHOLE), same_bits=same_bits)


def _mean(total: Any, count: Any) -> Any:
    """A mean over updates; 0 of none, since JAX can be told to end where a NaN is computed (jax_debug_nans)."""
    if isinstance(total, Seldom):
        return Seldom(_mean(total.total, total.count), total.count)
    return total / jnp.maximum(count, 1)


def empty_batches(config: TrainConfig, interface: Interface) -> Batch:
    """What a call takes, all zeros."""
    num_rows = (config.updates.updates_per_call, config.updates.batch_size)
    obs, action = interface.zero_observations(*num_rows), interface.zero_actions(*num_rows)
    row = np.zeros(num_rows, np.float32)
    return Batch(obs, action, row, obs, row, row)


def means_of(metrics: Metrics) -> dict[str, float]:
    """The numbers, waited for, means over the learners where each has its own; NaN of what no update had."""
    return {name: _number(value) for name, value in metrics.items()}


def _number(value: Any) -> float:
    if isinstance(value, Seldom):
        return _number(value.total) if np.asarray(value.count).all() else np.nan
    number = np.asarray(value)
    return (number.mean() if number.ndim else number).item()  # `float` takes ten times as long


def noise_key(rng: np.random.Generator) -> jax.Array:
    """The key of a run's noise, as plain numbers that a checkpoint can hold."""
    return jax.random.key_data(jax.random.key(int(rng.integers(2**31))))
