"""The convolutional torso of Mnih et al. 2015 (Nature 518), written once for JAX and NumPy.

    bytes [..., *shape] -> / 255 -> 8x8/4, 32 -> 4x4/2, 64 -> 3x3, 64 -> dense 512     (ReLU after each)

A convolution is one matrix product over gathered patches: XLA compiles the gradient of its own
convolution inside a `lax.scan` to loops that take 13 times as long on a CPU, and NumPy has none
(design/training-networks.md).
"""

import itertools
import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from drivetrain.train.config import Precision
from drivetrain.train.networks.mlp import orthogonal, uniform
from drivetrain.train.networks.network import Layout, Pieces
from drivetrain.train.networks.products import product

_KERNELS = ((8, 4, 32), (4, 2, 64), (3, 1, 64))  # (side, stride, channels) of each layer
_WIDTH = 512
SMALLEST_IMAGE = 36
"""Pixels of a side that all layers need at least."""


@dataclass(frozen=True)
class NatureCNN:
    """The shape of the torso for one kind of image; a `Torso`."""

    shape: tuple[int, ...]
    """Of an image as it is stored."""
    axes: str
    """A letter for each axis, see `interface.Image`."""
    precision: Precision = "float32"
    """Of the products, see `MLP`."""

    @property
    def num_features(self) -> int:
        """Width of the dense layer."""
        return _WIDTH

    @property
    def layout(self) -> Layout:
        """Weights [side, side, inputs, outputs] and bias of each convolution, then the dense layer."""
        pieces: list[tuple[str, tuple[int, ...]]] = []
        for name, shape in self._weights():
            pieces += [(f"{name}.weight", shape), (f"{name}.bias", shape[-1:])]
        return tuple(pieces)

    @property
    def needs_jax(self) -> bool:
        """No: NumPy serves."""
        return False

    def initial(self, rng: np.random.Generator, gain: float | None) -> Pieces:
        """Fresh parameters, see `Torso.initial`; a convolution counts as the dense layer of its patches."""
        pieces: Pieces = {}
        for name, shape in self._weights():
            num_in, num_out = math.prod(shape[:-1]), shape[-1]
            drawn = uniform(rng, num_in, num_out) if gain is None else orthogonal(rng, num_in, num_out, gain)
            pieces |= {f"{name}.weight": drawn[0].reshape(shape), f"{name}.bias": drawn[1]}
        return pieces

    def features(self, pieces: Pieces, obs: Any, xp: ModuleType) -> Any:
        """float32[..., 512] of images [..., *shape]."""
        lead = obs.shape[: obs.ndim - len(self.shape)]
        x = self._channels_last(obs, lead, xp).astype(np.float32) * np.float32(1 / 255)
        for index, (_, stride, _) in enumerate(_KERNELS):
            y = convolve(x, pieces[f"conv{index}.weight"], stride, xp, self.precision)
            x = xp.maximum(y + pieces[f"conv{index}.bias"], 0)
        flat = x.reshape(*lead, math.prod(x.shape[1:]))
        return xp.maximum(product(flat, pieces["dense.weight"], self.precision) + pieces["dense.bias"], 0)

    def _channels_last(self, obs: Any, lead: tuple[int, ...], xp: ModuleType) -> Any:
        """[batch, height, width, channels], the frames of a stack being channels, too."""
        images = obs.reshape(-1, *self.shape)
        order = [1 + self.axes.index(axis) for axis in "HWKC" if axis in self.axes]
        moved = xp.transpose(images, (0, *order))
        return moved.reshape(*moved.shape[:3], math.prod(moved.shape[3:]))

    def _weights(self) -> list[tuple[str, tuple[int, ...]]]:
        size = dict(zip(self.axes, self.shape, strict=True))
        height, width = size["H"], size["W"]
        channels = size.get("K", 1) * size.get("C", 1)
        weights: list[tuple[str, tuple[int, ...]]] = []
        for index, (side, stride, num_out) in enumerate(_KERNELS):
            weights.append((f"conv{index}", (side, side, channels, num_out)))
            height, width, channels = (height - side) // stride + 1, (width - side) // stride + 1, num_out
        return [*weights, ("dense", (height * width * channels, _WIDTH))]


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
