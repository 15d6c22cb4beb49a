"""A product whose factors are rounded to bfloat16 and whose sums are float32, forward and backward; JAX alone.

By hand, because XLA's CPU backend drops JAX's own setting of a product's precision, and refuses some products of
bfloat16 arrays (design/training-precision.md).
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from typing import Any

import jax
import jax.numpy as jnp


def rounded_product(x: Any, weight: Any) -> Any:
    """The product x @ weight of rounded factors: float32[..., rows, outputs].

    Args:
        x: float32[..., rows, inputs], or [inputs].
        weight: float32[inputs, outputs], or a stack of such that broadcasts with x.
    """
    return _product(x, weight)


@jax.custom_vjp
def _product(x: Any, weight: Any) -> Any:
    return _times(_rounded(x), _rounded(weight))


def _forward(x: Any, weight: Any) -> tuple[Any, tuple[Any, Any]]:
    factors = _rounded(x), _rounded(weight)
    return _times(*factors), factors


def _backward(factors: tuple[Any, Any], slopes: Any) -> tuple[Any, Any]:
    """Slopes by x and by weight: products of rounded factors, too."""
    x, weight = factors
    slopes = _rounded(slopes)
    if weight.ndim == 2:  # one product for all rows, however many axes they have
        rows, of_rows = x.reshape(-1, x.shape[-1]), slopes.reshape(-1, slopes.shape[-1])
        return _times(slopes, weight.T), _times(rows.T, of_rows)
    by_x, by_weight = _times(slopes, weight.swapaxes(-1, -2)), _times(x.swapaxes(-1, -2), slopes)
    return _summed(by_x, x.shape), _summed(by_weight, weight.shape)


_product.defvjp(_forward, _backward)


def _rounded(x: Any) -> Any:
    # Not by astype to bfloat16 and back, which XLA may leave out.
    return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)


def _times(left: Any, right: Any) -> Any:
    """The product of arrays float32 that hold bfloat16 numbers: on CPUs as they are, which is as exact."""
    return jax.lax.platform_dependent(left, right, cpu=jnp.matmul, default=_times_of_halves)


def _times_of_halves(left: Any, right: Any) -> Any:
    halves = left.astype(jnp.bfloat16), right.astype(jnp.bfloat16)
    return jnp.matmul(*halves, preferred_element_type=jnp.float32)


def _summed(slopes: Any, shape: tuple[int, ...]) -> Any:
    """Over the axes along which an array of this shape was broadcast."""
    added = slopes.ndim - len(shape)
    slopes = slopes.sum(tuple(range(added)))
    stretched = tuple(i for i, size in enumerate(shape) if size == 1 < slopes.shape[i])
    return slopes.sum(stretched, keepdims=True)
