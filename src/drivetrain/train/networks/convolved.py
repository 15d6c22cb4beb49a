"""Convolutions of a learner's, of bytes and behind rectified units; JAX alone.

On CPUs custom calls: in float32 without what is multiplied by zero (cpp/include/drivetrain/convolution.hpp), and in
bfloat16 by tiles, where there are such (rounded_convolution.hpp). Elsewhere products over gathered patches
(design/training-convolutions.md).
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.train._native import has_tiles
from drivetrain.train.config import Precision
from drivetrain.train.native_calls import CONVOLUTION, ROUNDED_CONVOLUTION, call
from drivetrain.train.networks.patches import convolve


def are_calls(precision: Precision) -> bool:
    """Whether there are such calls for this precision here."""
    return precision == "float32" or has_tiles()


def convolution(x: Any, weight: Any, bias: Any, stride: int, precision: Precision = "float32") -> Any:
    """The layer's outputs before its units, float32[num, rows, columns, outputs]; no padding.

    Args:
        x: uint8[num, inputs, height, width], of which the layer sees 255ths; or float32[num, height, width, inputs],
            of which it sees max(x, 0). The derivative at 0 is 0.
        weight: float32[side, side, inputs, outputs]; inputs, but of bytes, and outputs in whole sixteens.
        bias: float32[outputs].
        stride: Pixels between patches.
        precision: Of the products; see `are_calls`. Bytes are not rounded, but divided after they are summed up.
    """
    return _convolution(stride, precision, x, weight, bias)


_TARGETS: Mapping[Precision, tuple[str, str, str]] = {"float32": CONVOLUTION, "bfloat16": ROUNDED_CONVOLUTION}


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _convolution(stride: int, precision: Precision, x: Any, weight: Any, bias: Any) -> Any:
    size = slice(2, 4) if x.dtype == jnp.uint8 else slice(1, 3)
    rows, columns = ((length - weight.shape[0]) // stride + 1 for length in x.shape[size])
    shape = (x.shape[0], rows, columns, weight.shape[-1])
    by_patches = partial(_by_patches, stride, precision)
    return call(_TARGETS[precision][0], shape, by_patches, x, weight, bias, stride=stride)


def _forward(stride: int, precision: Precision, x: Any, weight: Any, bias: Any) -> tuple[Any, tuple[Any, Any, Any]]:
    return _convolution(stride, precision, x, weight, bias), (x, weight, bias)


def _backward(stride: int, precision: Precision, kept: tuple[Any, Any, Any], slopes: Any) -> tuple[Any, Any, Any]:
    """Slopes by the weight and by x: two calls, so that what nobody needs is left out."""
    x, weight, bias = kept
    by_patches = partial(_by_patches, stride, precision)
    _, weight_target, x_target = _TARGETS[precision]

    def by_weight(x: Any, slopes: Any) -> Any:
        # At any weight: outputs are linear in it.
        _, pull = jax.vjp(partial(by_patches, x), jnp.zeros_like(weight), jnp.zeros_like(bias))
        return list(pull(slopes))

    def by_x(x: Any, weight: Any, slopes: Any) -> Any:
        _, pull = jax.vjp(lambda x: by_patches(x, weight, bias), x)
        return pull(slopes)[0]

    of_weight, of_bias = call(weight_target, [weight.shape, bias.shape], by_weight, x, slopes, stride=stride)
    if x.dtype == jnp.uint8:
        return np.zeros(x.shape, jax.dtypes.float0), of_weight, of_bias
    return call(x_target, x.shape, by_x, x, weight, slopes, stride=stride), of_weight, of_bias


_convolution.defvjp(_forward, _backward)


def _by_patches(stride: int, precision: Precision, x: Any, weight: Any, bias: Any) -> Any:
    if x.dtype == jnp.uint8:
        seen, unit = jnp.transpose(x, (0, 2, 3, 1)).astype(jnp.float32), np.float32(1 / 255)
    else:
        seen, unit = jnp.where(x <= 0, 0, x), 1  # NaN stays NaN
    return convolve(seen, weight, stride, jnp, precision) * unit + bias
