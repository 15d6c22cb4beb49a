"""Optimizers: Adam with a clipped gradient norm, in one pass over all there is, or the user's own."""

# optax annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import AgentConfig
from drivetrain.train.config.given import load_object
from drivetrain.train.learner.sharing import Joined
from drivetrain.train.native_calls import ADAM, call_in_place

_BETA1, _BETA2 = 0.9, 0.999


class Optimizer(NamedTuple):
    """How gradients move parameters."""

    init: Callable[[Any], Any]
    """The state before the first step, of the parameters."""
    step: Callable[[Any, Any, Any], tuple[Any, Any, jax.Array]]
    """From gradients (a tree, or `Joined`), state and parameters to the new parameters, the new state, and the
    gradients' norm. Pure."""


class AdamState(NamedTuple):
    """What Adam remembers."""

    num_steps: jax.Array
    """int32, steps so far."""
    first: Any
    """Running mean of the gradients, like the parameters."""
    second: Any
    """Running mean of their squares, like the parameters."""


def optimizer_of(config: AgentConfig, max_norm: float | None = None, learning_rate: Any = None) -> Optimizer:
    """The optimizer that an algorithm's settings ask for, on gradients scaled down to `max_norm`.

    Args:
        config: The algorithm's.
        max_norm: Largest norm of all gradients together; None: any.
        learning_rate: A step size, of a schedule perhaps; None: that of the settings.

    Raises:
        InvalidInput: A function of the user's own gives no optax transformation.
    """
    rate = config.learning_rate if learning_rate is None else learning_rate
    if config.optimizer == "adam":
        return adam(rate, config.adam_epsilon, max_norm)
    maker = load_object("optimizer", config.optimizer)
    if _is_transformation(maker):
        raise InvalidInput(
            "optimizer: expected a function from a learning rate to an optax transformation, got a transformation "
            "itself; give a function of the rate, as `lambda rate: optax.adam(rate)`, and the rate as learning_rate"
        )
    own = maker(rate)
    if not _is_transformation(own):
        raise InvalidInput(
            f"optimizer: expected a function from a learning rate to an optax transformation, and "
            f"{config.optimizer!r} gave {type(own).__name__}"
        )
    clipped = own if max_norm is None else optax.chain(optax.clip_by_global_norm(max_norm), own)

    def step(gradients: Any, state: Any, params: Any) -> tuple[Any, Any, jax.Array]:
        gradients = gradients.tree if isinstance(gradients, Joined) else gradients
        changes, state = clipped.update(gradients, state, params)
        return optax.apply_updates(params, changes), state, global_norm(gradients)

    return Optimizer(clipped.init, step)


def _is_transformation(value: Any) -> bool:
    """Whether it is what optax calls a gradient transformation."""
    return callable(getattr(value, "init", None)) and callable(getattr(value, "update", None))


def adam(learning_rate: Any, epsilon: float, max_norm: float | None = None) -> Optimizer:
    """Adam, after scaling gradients whose norm exceeds `max_norm` down to it.

    Equals optax's chain of `clip_by_global_norm` and `adam`. All that is common to the elements
    (clipping, bias correction, step size) is worked out once, so that an element costs one division
    and one square root. On CPUs float32 is stepped by one call for all pieces (design/training-updates.md).

    Reference: Kingma & Ba 2015, arXiv:1412.6980, algorithm 1; the effective step of its section 2.
    """

    def init(params: Any) -> AdamState:
        def zeros() -> Any:
            return jax.tree.map(lambda param: jax.device_put(np.zeros(param.shape, param.dtype)), params)

        return AdamState(jnp.int32(0), zeros(), zeros())

    def step(gradients: Any, state: AdamState, params: Any) -> tuple[Any, AdamState, jax.Array]:
        (*moments, moved), structures = zip(*map(jax.tree.flatten, (state.first, state.second, params)), strict=True)
        slopes = [gradients.vector] if isinstance(gradients, Joined) else jax.tree.leaves(gradients)
        arrays = [*slopes, *moments[0], *moments[1], *moved]
        dtype, num_steps = arrays[0].dtype, state.num_steps + 1
        time = num_steps.astype(dtype)
        size, spread = -learning_rate / (1 - _BETA1**time), jax.lax.rsqrt(1 - _BETA2**time)
        limit = np.inf if max_norm is None else max_norm
        factors = (_BETA1, 1 - _BETA1, _BETA2, 1 - _BETA2, size, spread, epsilon, limit)
        factors = jnp.stack([jnp.asarray(factor, dtype) for factor in factors])
        if all(array.dtype == jnp.float32 for array in arrays):
            *after, norm = call_in_place(ADAM, 1 + len(slopes), partial(_stepped, len(moved)), factors, *arrays)
        else:
            *after, norm = _stepped(len(moved), factors, *arrays)
        leaves = iter(after)
        first, second, params = (jax.tree.unflatten(own, [next(leaves) for _ in moved]) for own in structures)
        return params, AdamState(num_steps, first, second), norm

    return Optimizer(init, step)


def _stepped(count: int, factors: Any, *arrays: Any) -> list[Any]:
    """The step of Adam in operations of XLA's.

    Of so many pieces of gradients, or one vector of them, of means, mean squares and parameters: the last three,
    changed, and the gradients' norm.
    """
    keep_mean, take_mean, keep_square, take_square, size, spread, epsilon, max_norm = factors
    means, squares, params = (arrays[len(arrays) - part * count :][:count] for part in (3, 2, 1))
    gradients = arrays[: len(arrays) - 3 * count]
    if gradients[0].shape != means[0].shape:
        ends = np.cumsum([mean.size for mean in means]).tolist()
        parts = zip(means, ends, strict=True)
        gradients = [gradients[0][end - mean.size : end].reshape(mean.shape) for mean, end in parts]
    norm = global_norm(gradients)
    scale = jnp.where((norm < max_norm) | jnp.isinf(max_norm), 1.0, max_norm / norm)
    gradients = [scale * g for g in gradients]  # not what is taken of them: their squares may be beyond all floats
    means = [keep_mean * m + take_mean * g for m, g in zip(means, gradients, strict=True)]
    squares = [keep_square * v + take_square * (g * g) for v, g in zip(squares, gradients, strict=True)]
    moments = zip(params, means, squares, strict=True)
    params = [param + size * m / (jnp.sqrt(v) * spread + epsilon) for param, m, v in moments]
    return [*means, *squares, *params, norm]


def global_norm(tree: Any) -> jax.Array:
    """Euclidean norm of all numbers of a tree together."""
    return jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(tree)))
