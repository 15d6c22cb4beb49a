"""Convolutions as matrix products over gathered patches, written once for JAX and NumPy.

XLA compiles the gradient of its own convolution inside a `lax.scan` to loops that take 13 times as long on a CPU, and
NumPy has none (design/training-convolutions.md).
"""

import itertools
from types import ModuleType
from typing import Any

from drivetrain.train.config import Precision
from drivetrain.train.networks.products import product


def convolve(x: Any, weight: Any, stride: int, xp: ModuleType, precision: Precision = "float32") -> Any:
    """Cross-correlation without padding.

    Where the stride divides the side, blocks of stride x stride pixels become channels first: then
    the stride is 1, and patches are gathered from few large pieces.

    Args:
        x: [batch, height, width, inputs].
        weight: [side, side, inputs, outputs].
        stride: Pixels between patches.
        xp: `numpy` or `jax.numpy`.
        precision: Of the product.
    """
    side, _, num_in, num_out = weight.shape
    if stride > 1 and side % stride == 0:
        x, weight = _blocks(x, stride), _weight_blocks(weight, stride)
        side, num_in, stride = side // stride, num_in * stride * stride, 1
    num, height, width = x.shape[:3]
    rows, columns = (height - side) // stride + 1, (width - side) // stride + 1
    shifted = [
        x[:, i : i + stride * rows : stride, j : j + stride * columns : stride]
        for i, j in itertools.product(range(side), repeat=2)
    ]
    patches = xp.concatenate([part[:, :rows, :columns] for part in shifted], -1)
    patches = patches.reshape(num * rows * columns, side * side * num_in)
    return product(patches, weight.reshape(-1, num_out), precision).reshape(num, rows, columns, num_out)


def _blocks(x: Any, stride: int) -> Any:
    """[batch, height, width, c] to [batch, height / stride, width / stride, stride^2 c]; a rest is cut off."""
    num, height, width, channels = x.shape
    rows, columns = height // stride, width // stride
    cut = x[:, : rows * stride, : columns * stride].reshape(num, rows, stride, columns, stride, channels)
    return cut.transpose(0, 1, 3, 2, 4, 5).reshape(num, rows, columns, stride * stride * channels)


def _weight_blocks(weight: Any, stride: int) -> Any:
    """The weight that does on blocks what `weight` does on pixels."""
    side, _, num_in, num_out = weight.shape
    count = side // stride
    blocks = weight.reshape(count, stride, count, stride, num_in, num_out).transpose(0, 2, 1, 3, 4, 5)
    return blocks.reshape(count, count, stride * stride * num_in, num_out)
