"""The product behind rectified linear units, max(z, 0) @ weight, without what is multiplied by zero; JAX alone.

On CPUs three custom calls (cpp/include/drivetrain/rectified.hpp), elsewhere XLA's own products. Half of what such
units give is zero, and in trained networks many are off for whole batches (design/training-updates.md).
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.train.native_calls import RECTIFIED, call, transposed

SMALLEST = (16, 64, 64)
"""Rows, inputs and outputs of a product from which leaving out pays for finding out what."""


def rectified(z: Any) -> Any:
    """The units alone, max(z, 0); the derivative at z = 0 is 0, and NaN stays NaN.

    (The derivative of `jnp.maximum` shares ties out, by a division for every number.)
    """
    return jnp.where(z <= 0, 0, z)


def rectified_product(z: Any, weight: Any) -> Any:
    """The product max(z, 0) @ weight; its derivative at z = 0 is 0.

    Args:
        z: float32[..., rows, inputs], before the units.
        weight: float32[..., inputs, outputs].
    """
    leading = z.shape[:-2]
    sizes = (*z.shape[-2:], weight.shape[-1])
    fits = len(leading) <= 1 and leading == weight.shape[:-2] and z.dtype == weight.dtype == jnp.float32
    if fits and all(size >= smallest for size, smallest in zip(sizes, SMALLEST, strict=True)):
        return _product(z, weight)
    return _whole(z, weight)


@jax.custom_vjp
def _product(z: Any, weight: Any) -> Any:
    return call(RECTIFIED[0], (*z.shape[:-1], weight.shape[-1]), _whole, z, weight)


def _forward(z: Any, weight: Any) -> tuple[Any, tuple[Any, Any]]:
    return _product(z, weight), (z, weight)


def _backward(kept: tuple[Any, Any], slopes: Any) -> tuple[Any, Any]:
    """Slopes by z and by the weight: two calls, so that the one that nobody needs is left out."""
    z, weight = kept
    by_weight = call(RECTIFIED[1], weight.shape, lambda z, slopes: transposed(rectified(z)) @ slopes, z, slopes)
    by_z = call(
        RECTIFIED[2],
        z.shape,
        lambda z, weight, slopes: jnp.where(z <= 0, 0, slopes @ transposed(weight)),
        *(z, weight, slopes),
    )
    return by_z, by_weight


_product.defvjp(_forward, _backward)


def _whole(z: Any, weight: Any) -> Any:
    return rectified(z) @ weight
