"""Optimizers: Adam with a clipped gradient norm that compiles to one loop per piece, or the user's own."""

# optax annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import AgentConfig
from drivetrain.train.config.given import load_object
from drivetrain.train.networks import Network

_BETA1, _BETA2 = 0.9, 0.999


class AdamState(NamedTuple):
    """What Adam remembers."""

    num_steps: jax.Array
    """int32, steps so far."""
    first: Any
    """Running mean of the gradients, like the parameters."""
    second: Any
    """Running mean of their squares, like the parameters."""


def optimizer_of(
    config: AgentConfig, max_norm: float | None = None, learning_rate: Any = None
) -> optax.GradientTransformation:
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
    own = load_object("optimizer", config.optimizer)(rate)
    if not (callable(getattr(own, "init", None)) and callable(getattr(own, "update", None))):
        raise InvalidInput(
            f"optimizer: expected a function from a learning rate to an optax transformation, and "
            f"{config.optimizer!r} gave {type(own).__name__}"
        )
    return own if max_norm is None else optax.chain(optax.clip_by_global_norm(max_norm), own)


def require_optimizer(config: AgentConfig, network: Network) -> None:
    """Check that an optimizer of the user's own can step a network's parameters.

    Raises:
        InvalidInput: It cannot be loaded, is none, or raised when it was tried.
    """
    try:
        own = optimizer_of(config)
        params = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in network.layout}
        state = jax.eval_shape(own.init, params)
        steps, after = jax.eval_shape(own.update, params, state, params)
    except InvalidInput:
        raise
    except Exception as error:  # whatever the user's function raises
        sentence = " ".join(str(error).split())[:300]
        raise _unfit(config, f"it raised {type(error).__name__}: {sentence}") from error
    if (steps, after) != (params, state):
        raise _unfit(config, "steps are not like the parameters, or its state changes its shapes or kinds")


def _unfit(config: AgentConfig, reason: str) -> InvalidInput:
    return InvalidInput(
        f"optimizer: {config.optimizer!r} does not fit: {reason}; expected a function from a learning rate to an "
        "optax transformation with init(params) and update(gradients, state, params)"
    )


def adam(learning_rate: Any, epsilon: float, max_norm: float | None = None) -> optax.GradientTransformation:
    """Adam, after scaling gradients whose norm exceeds `max_norm` down to it.

    Equals optax's chain of `clip_by_global_norm` and `adam`. All that is common to the elements
    (clipping, bias correction, step size) is worked out once, so that an element costs one division
    and one square root (design/training-updates.md).

    Reference: Kingma & Ba 2015, arXiv:1412.6980, algorithm 1; the effective step of its section 2.
    """

    def init(params: Any) -> AdamState:
        def zeros() -> Any:
            return jax.tree.map(lambda param: jax.device_put(np.zeros(param.shape, param.dtype)), params)

        return AdamState(jnp.int32(0), zeros(), zeros())

    def update(gradients: Any, state: AdamState, params: Any = None) -> tuple[Any, AdamState]:
        del params
        scale = 1.0
        if max_norm is not None:
            norm = global_norm(gradients)
            scale = jnp.where(norm < max_norm, 1.0, max_norm / norm)
        num_steps = state.num_steps + 1
        time = num_steps.astype(jnp.float32)
        step = -learning_rate / (1 - _BETA1**time)
        spread = jax.lax.rsqrt(1 - _BETA2**time)
        mean_share, square_share = (1 - _BETA1) * scale, (1 - _BETA2) * scale * scale
        first = jax.tree.map(lambda m, g: _BETA1 * m + mean_share * g, state.first, gradients)
        second = jax.tree.map(lambda v, g: _BETA2 * v + square_share * (g * g), state.second, gradients)
        steps = jax.tree.map(lambda m, v: step * m / (jnp.sqrt(v) * spread + epsilon), first, second)
        return steps, AdamState(num_steps, first, second)

    return optax.GradientTransformation(init, update)  # pyright: ignore[reportArgumentType]


def global_norm(tree: Any) -> jax.Array:
    """Euclidean norm of all numbers of a tree together."""
    return jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(tree)))
