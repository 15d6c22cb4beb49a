"""The convolutional torso of Mnih et al. 2015 (Nature 518), written once for JAX and NumPy.

    bytes [..., *shape] -> / 255 -> 8x8/4, 32 -> 4x4/2, 64 -> 3x3, 64 -> dense 512     (ReLU after each)

A learner's and an actor's are loops of ours (convolved.py, design/training-convolutions.md); in all else, and in
bfloat16 on processors that do not multiply it, a convolution is a product over gathered patches (patches.py).
"""

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from drivetrain.train._native import convolutions, forward
from drivetrain.train.config import Precision
from drivetrain.train.networks.mlp import orthogonal, uniform
from drivetrain.train.networks.network import Layout, Pieces
from drivetrain.train.networks.patches import convolve
from drivetrain.train.networks.products import product, product_behind_units

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
    is_learning: bool = False
    """Whether convolutions are calls of ours where there are such; a learner's, see `MLP`."""
    is_acting: bool = False
    """Whether they are native loops on NumPy's arrays; an actor's, see `MLP`."""

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
        images = obs.reshape(-1, *self.shape)
        if self.is_acting:
            z = self._acting(pieces, images)
        elif self.is_learning:
            z = self._learning(pieces, images, xp)
        else:
            z = self._by_patches(pieces, images, xp)
        return xp.maximum(z, 0).reshape(*lead, _WIDTH)

    def _by_patches(self, pieces: Pieces, images: Any, xp: ModuleType) -> Any:
        """[batch, 512] before the last units."""
        x = self._moved(images, "HWKC", xp).astype(np.float32)
        x = x.reshape(*x.shape[:3], -1)
        for index, (_, stride, _) in enumerate(_KERNELS):
            y = convolve(x, pieces[f"conv{index}.weight"], stride, xp, self.precision)
            if index == 0:
                y = y * np.float32(1 / 255)  # bytes are whole numbers, which no precision rounds
            x = xp.maximum(y + pieces[f"conv{index}.bias"], 0)
        return product(x.reshape(len(images), -1), pieces["dense.weight"], self.precision) + pieces["dense.bias"]

    def _learning(self, pieces: Pieces, images: Any, xp: ModuleType) -> Any:
        """Likewise, of JAX's arrays."""
        from drivetrain.train.networks.convolved import are_calls, convolution  # imports jax: only where it is needed

        if not are_calls(self.precision):
            return self._by_patches(pieces, images, xp)
        z = self._channels_first(images, xp)
        for index, (_, stride, _) in enumerate(_KERNELS):
            z = convolution(z, pieces[f"conv{index}.weight"], pieces[f"conv{index}.bias"], stride, self.precision)
        z = z.reshape(len(images), -1)
        return product_behind_units(z, pieces["dense.weight"], self.precision) + pieces["dense.bias"]

    def _acting(self, pieces: Pieces, images: Any) -> Any:
        """Likewise, of NumPy's arrays."""
        bytes_first = np.ascontiguousarray(self._channels_first(images, np))
        layers = tuple(pieces[f"conv{index}.{part}"] for index in range(len(_KERNELS)) for part in ("weight", "bias"))
        z = convolutions(bytes_first, layers, tuple(stride for _, stride, _ in _KERNELS))
        return forward(z, (pieces["dense.weight"], pieces["dense.bias"]), 0, True, True)[0]

    def _channels_first(self, images: Any, xp: ModuleType) -> Any:
        """[batch, channels, height, width], the frames of a stack being channels, too."""
        moved = self._moved(images, "KCHW", xp)
        return moved.reshape(len(images), -1, *moved.shape[-2:])

    def _moved(self, images: Any, order: str, xp: ModuleType) -> Any:
        """Images with their axes in another order."""
        return xp.transpose(images, (0, *(1 + self.axes.index(axis) for axis in order if axis in self.axes)))

    def _weights(self) -> list[tuple[str, tuple[int, ...]]]:
        size = dict(zip(self.axes, self.shape, strict=True))
        height, width = size["H"], size["W"]
        channels = size.get("K", 1) * size.get("C", 1)
        weights: list[tuple[str, tuple[int, ...]]] = []
        for index, (side, stride, num_out) in enumerate(_KERNELS):
            weights.append((f"conv{index}", (side, side, channels, num_out)))
            height, width, channels = (height - side) // stride + 1, (width - side) // stride + 1, num_out
        return [*weights, ("dense", (height * width * channels, _WIDTH))]
