"""A product whose factors are rounded to bfloat16 and whose sums are float32, forward and backward; JAX alone.

By hand, because XLA's CPU backend drops JAX's own setting of a product's precision, and refuses some products of
bfloat16 arrays. On CPUs with tiles it is three custom calls (cpp/include/drivetrain/rounded.hpp), on others products of
float32 arrays of rounded numbers, on GPUs of bfloat16 arrays (design/training-precision.md).
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from drivetrain.train._native import has_tiles
from drivetrain.train.native_calls import ROUNDED, call, transposed
from drivetrain.train.networks.rectified import rectified

SMALLEST = (16, 2)
"""Rows, and outputs, of a product from which tiles pay."""


def rounded_product(x: Any, weight: Any, behind_units: bool = False) -> Any:
    """The product x @ weight of rounded factors: float32[..., rows, outputs].

    Args:
        x: float32[..., rows, inputs], or [inputs].
        weight: float32[inputs, outputs], or a stack of such that broadcasts with x.
        behind_units: Whether x is what rectified units get, so that max(x, 0) is multiplied; its derivative at 0 is 0.
    """
    if weight.ndim == 2:  # one product for all rows, however many axes they have
        rows: Any = _product(behind_units, x.reshape(-1, x.shape[-1]), weight)
        return rows.reshape(*x.shape[:-1], weight.shape[-1])
    leading = jnp.broadcast_shapes(x.shape[:-2], weight.shape[:-2])
    x, weight = (jnp.broadcast_to(factor, (*leading, *factor.shape[-2:])) for factor in (x, weight))
    return _product(behind_units, x, weight)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _product(behind_units: bool, x: Any, weight: Any) -> Any:
    def product(times: _Times, x: Any, weight: Any) -> Any:
        return times(rectified(x) if behind_units else x, weight)

    shape = (*x.shape[:-1], weight.shape[-1])
    return _computed(ROUNDED[0], behind_units, _has_tiles_for(x, weight), shape, product, x, weight)


def _forward(behind_units: bool, x: Any, weight: Any) -> tuple[Any, tuple[Any, Any]]:
    return _product(behind_units, x, weight), (x, weight)


def _backward(behind_units: bool, kept: tuple[Any, Any], slopes: Any) -> tuple[Any, Any]:
    """Slopes by x and by the weight: two products, so that the one that nobody needs is left out."""
    x, weight = kept

    def by_x(times: _Times, x: Any, weight: Any, slopes: Any) -> Any:
        found = times(slopes, transposed(weight))
        return jnp.where(x <= 0, 0, found) if behind_units else found

    def by_weight(times: _Times, x: Any, slopes: Any) -> Any:
        return times(transposed(rectified(x) if behind_units else x), slopes)

    tiles = _has_tiles_for(x, weight)
    return (
        _computed(ROUNDED[2], behind_units, tiles, x.shape, by_x, x, weight, slopes),
        _computed(ROUNDED[1], behind_units, tiles, weight.shape, by_weight, x, slopes),
    )


_product.defvjp(_forward, _backward)

_Times = Callable[[Any, Any], Any]
"""A product of two matrices, or of several, of rounded factors."""


def _has_tiles_for(x: Any, weight: Any) -> bool:
    few = x.shape[-2] < SMALLEST[0] or weight.shape[-1] < SMALLEST[1]
    return has_tiles() and not few and x.ndim <= 3 and x.dtype == weight.dtype == jnp.float32


def _computed(
    target: str, behind_units: bool, by_tiles: bool, shape: tuple[int, ...], formula: Callable[..., Any], *arrays: Any
) -> Any:
    """What a formula gives for a way to multiply, by the call on CPUs with tiles and by XLA's products elsewhere."""
    on_gpus = partial(formula, _times_of_halves)
    if by_tiles:
        return call(target, shape, on_gpus, *arrays, rectified=behind_units)
    return jax.lax.platform_dependent(*arrays, cpu=partial(formula, _times_of_rounded), default=on_gpus)


def _times_of_rounded(left: Any, right: Any) -> Any:
    """Of float32 arrays, which is as exact: a product of two bfloat16 numbers fits."""
    return _rounded(left) @ _rounded(right)


def _rounded(x: Any) -> Any:
    # Not by astype to bfloat16 and back, which XLA may leave out.
    return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)


def _times_of_halves(left: Any, right: Any) -> Any:
    halves = left.astype(jnp.bfloat16), right.astype(jnp.bfloat16)
    return jnp.matmul(*halves, preferred_element_type=jnp.float32)
