"""An off-policy algorithm as a record of pure functions, and U of its updates in one compiled call.

algos/X.make(config, interface) -> Algorithm(init, update, policy)
compile_updates(algorithm)      -> updates(state, batches [U, B], count)
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.train.networks import Pieces

Metrics = dict[str, Any]
"""What an update tells of itself: name, scalar."""


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
    update: Callable[[Any, Batch], tuple[Any, jax.Array, Metrics]]
    """One update on one batch [B]: the new state, |TD errors| [B], metrics. Pure."""
    policy: Callable[[Any], Pieces]
    """The acting network's parameters in a state."""


Updates = Callable[[Any, Batch, Any], tuple[Any, jax.Array, Metrics]]


def compile_updates(algorithm: Algorithm) -> Updates:
    """Compile `updates(state, batches, count)`: up to U updates in one call.

    One `lax.scan` over U batches; the first `count` of them are used and the rest skipped, so that a
    remainder costs no second compilation (design/training-updates.md).

    Returns:
        A function giving the new state (the old one is donated), |TD errors| [U, B] of which the
        first `count` rows mean something, and the metrics' means over the `count` updates.
    """

    def updates(state: Any, batches: Batch, count: Any) -> tuple[Any, jax.Array, Metrics]:
        num_batches = batches.reward.shape[0]
        first = jax.tree.map(lambda x: x[0], batches)
        _, *shapes = jax.eval_shape(algorithm.update, state, first)
        no_errors, nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), tuple(shapes))

        def body(carry: Any, item: Any) -> Any:
            state, totals = carry
            index, batch = item
            state, td_errors, metrics = jax.lax.cond(
                index < count,
                lambda state: algorithm.update(state, batch),
                lambda state: (state, no_errors, nothing),
                state,
            )
            return (state, jax.tree.map(jnp.add, totals, metrics)), td_errors

        carry, td_errors = jax.lax.scan(body, (state, nothing), (jnp.arange(num_batches), batches))
        state, totals = carry
        return state, td_errors, jax.tree.map(lambda total: total / count, totals)

    return jax.jit(updates, donate_argnums=0)
