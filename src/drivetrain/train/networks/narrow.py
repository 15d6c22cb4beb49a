"""Products where one side is a few numbers wide, an observation or a head's outputs; JAX alone.

On CPUs custom calls (cpp/include/drivetrain/narrow.hpp), for XLA cuts such products into panels, which costs more than
they do (design/training-updates.md); elsewhere XLA's own products.
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.train.native_calls import NARROW, call, transposed

MOST = (8, 32)
"""Inputs, and outputs, up to which they count as few; for a single output, and from 9 to 32 inputs, XLA is as quick."""
SMALLEST = (8, 32)
"""Rows, and the wide side, from which a call of ours pays."""


def narrow_product(x: Any, weight: Any) -> Any:
    """The product x @ weight.

    Args:
        x: float32[..., rows, inputs].
        weight: float32[..., inputs, outputs]; the first layer of twins has an axis more than x.
    """
    if x.ndim == 2 and weight.ndim == 3 and weight.shape[-2] <= weight.shape[-1]:
        # Otherwise JAX makes one wide product of both and turns what comes out, and all its slopes.
        x = jnp.broadcast_to(x, (len(weight), *x.shape))
    leading, (num_in, num_out) = x.shape[:-2], weight.shape[-2:]
    fits = 2 <= x.ndim <= 3 and leading == weight.shape[:-2] and x.dtype == weight.dtype == jnp.float32
    if not fits or x.shape[-2] < SMALLEST[0] or max(num_in, num_out) < SMALLEST[1]:
        return x @ weight
    if num_in <= min(num_out, MOST[0]):
        return _spread(x, weight)
    return _gather(x, transposed(weight)) if 1 < num_out <= min(num_in, MOST[1]) else x @ weight


@jax.custom_vjp
def _spread(x: Any, w: Any) -> Any:
    """Y [rows, wide] = x [rows, few] @ w [few, wide]."""
    return call(NARROW[0], (*x.shape[:-1], w.shape[-1]), lambda x, w: x @ w, x, w)


@jax.custom_vjp
def _gather(y: Any, w: Any) -> Any:
    """X [rows, few] = y [rows, wide] @ w [few, wide]^T."""
    return call(NARROW[2], (*y.shape[:-1], w.shape[-2]), lambda y, w: y @ transposed(w), y, w)


def _outer(x: Any, y: Any) -> Any:
    """The matrix x^T @ y [few, wide] of x [rows, few] and y [rows, wide]."""
    return call(NARROW[1], (*x.shape[:-2], x.shape[-1], y.shape[-1]), lambda x, y: transposed(x) @ y, x, y)


def _spread_slopes(kept: tuple[Any, Any], y: Any) -> tuple[Any, Any]:
    """Two calls, so that one that nobody needs is left out; below likewise."""
    x, w = kept
    return _gather(y, w), _outer(x, y)


def _gather_slopes(kept: tuple[Any, Any], x: Any) -> tuple[Any, Any]:
    y, w = kept
    return _spread(x, w), _outer(x, y)


def _kept_spread(x: Any, w: Any) -> tuple[Any, tuple[Any, Any]]:
    return _spread(x, w), (x, w)


def _kept_gather(y: Any, w: Any) -> tuple[Any, tuple[Any, Any]]:
    return _gather(y, w), (y, w)


_spread.defvjp(_kept_spread, _spread_slopes)
_gather.defvjp(_kept_gather, _gather_slopes)
