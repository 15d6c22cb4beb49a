"""Multilayer perceptrons: hidden layers, then one or more heads."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drivetrain.train._native import forward
from drivetrain.train.config import Precision
from drivetrain.train.networks.network import Layout, Pieces
from drivetrain.train.networks.products import product, product_behind_units

Activation = Literal["relu", "tanh"]
MOST_NATIVE_ROWS: Mapping[Activation, int] = {"relu": 32, "tanh": 3}
"""Rows up to which a network that acts is evaluated by one native call: beyond, NumPy's products gain by reading each
weight once for all of them, and its tanh by taking several numbers at once (design/training-networks.md)."""


@dataclass(frozen=True, kw_only=True)
class MLP:
    """The shape of a multilayer perceptron on vectors; a `Network`."""

    num_inputs: int
    """Length of an input; of observation and action together where both go in."""
    hidden: tuple[int, ...]
    """Widths of the hidden layers."""
    heads: tuple[tuple[str, int], ...]
    """(name, width) of each output layer; all read the last hidden layer."""
    activation: Activation = "relu"
    """Between layers."""
    head_gains: tuple[float, ...] | None = None
    """Initialise orthogonally, with gain sqrt 2 in hidden layers, these in the heads, and no bias (as PPO is
    usually run; Saxe et al. 2014, arXiv:1312.6120). None: uniform in +-1/sqrt(inputs), biases too (PyTorch's)."""
    precision: Precision = "float32"
    """Of the products; a learner's may be bfloat16, for `jax.numpy` alone."""
    is_learning: bool = False
    """Whether products are calls of ours where those pay (rectified.py, narrow.py, rounded.py); a learner's, for
    `jax.numpy` alone."""
    is_acting: bool = False
    """Whether a few rows are one native call (cpp/include/drivetrain/forward.hpp); an actor's, for `numpy` alone."""

    @property
    def layers(self) -> list[tuple[str, int, int]]:
        """(name, inputs, outputs) of every dense layer, in the order of the vector."""
        widths = [self.num_inputs, *self.hidden]
        torso = [(f"hidden{i}", widths[i], widths[i + 1]) for i in range(len(self.hidden))]
        return torso + [(name, widths[-1], width) for name, width in self.heads]

    @property
    def layout(self) -> Layout:
        """The pieces: weight [inputs, outputs] and bias [outputs] of each layer."""
        return tuple(
            piece
            for name, num_in, num_out in self.layers
            for piece in ((f"{name}.weight", (num_in, num_out)), (f"{name}.bias", (num_out,)))
        )

    @cached_property
    def _in_order(self) -> Callable[[Pieces], tuple[Any, ...]]:
        """Weight and bias of each layer."""
        return itemgetter(*(name for name, _ in self.layout))

    def initial(self, rng: np.random.Generator) -> Pieces:
        """Fresh parameters, float32."""
        pieces: Pieces = {}
        hidden_gains = [math.sqrt(2)] * len(self.hidden)
        gains = [None] * len(self.layers) if self.head_gains is None else [*hidden_gains, *self.head_gains]
        for (name, num_in, num_out), gain in zip(self.layers, gains, strict=True):
            weight, bias = uniform(rng, num_in, num_out) if gain is None else orthogonal(rng, num_in, num_out, gain)
            pieces |= {f"{name}.weight": weight, f"{name}.bias": bias}
        return pieces

    def apply(self, pieces: Pieces, obs: Any, xp: ModuleType, action: Any = None) -> Pieces:
        """The outputs of every head for float32[..., num_inputs], see `Network.apply`."""
        if self.is_acting and action is None and obs.ndim == 2 and len(obs) <= MOST_NATIVE_ROWS[self.activation]:
            rows = np.ascontiguousarray(obs, np.float32)
            outputs = forward(rows, self._in_order(pieces), len(self.hidden), self.activation == "relu", False)
            return {name: output for (name, _), output in zip(self.heads, outputs, strict=True)}
        features = obs if action is None else xp.concatenate([obs, action], -1)
        inputs: Any = None  # of the units of a layer
        for index in range(len(self.hidden)):
            weight, bias = pieces[f"hidden{index}.weight"], pieces[f"hidden{index}.bias"]
            if inputs is not None and self.is_learning and self.activation == "relu":
                inputs = product_behind_units(inputs, weight, self.precision) + bias
            else:
                inputs = self._product(features, weight) + bias
            features = self._activated(inputs, xp)
        return {
            name: self._product(features, pieces[f"{name}.weight"]) + pieces[f"{name}.bias"] for name, _ in self.heads
        }

    def _activated(self, inputs: Any, xp: ModuleType) -> Any:
        if self.activation == "tanh":
            return xp.tanh(inputs)
        if not self.is_learning:
            return xp.maximum(inputs, 0)
        from drivetrain.train.networks.rectified import rectified  # imports jax: as above

        return rectified(inputs)

    def _product(self, x: Any, weight: Any) -> Any:
        if not self.is_learning or self.precision != "float32":
            return product(x, weight, self.precision)
        from drivetrain.train.networks.narrow import narrow_product  # imports jax: only where it is needed

        return narrow_product(x, weight)


def uniform(rng: np.random.Generator, num_in: int, num_out: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weight [num_in, num_out] and bias, uniform in +-1/sqrt(num_in)."""
    drawn = (rng.uniform(-1.0, 1.0, (num_in + 1) * num_out) / math.sqrt(num_in)).astype(np.float32)
    return drawn[: num_in * num_out].reshape(num_in, num_out), drawn[num_in * num_out :]


def orthogonal(
    rng: np.random.Generator, num_in: int, num_out: int, gain: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weight [num_in, num_out] whose shorter side is orthogonal vectors of length `gain`; bias 0."""
    tall = rng.standard_normal((max(num_in, num_out), min(num_in, num_out)))
    q, r = np.linalg.qr(tall)
    q *= np.sign(np.diag(r))  # makes the draw uniform over all rotations
    weight = q if num_in >= num_out else q.T
    return np.ascontiguousarray(gain * weight, np.float32), np.zeros(num_out, np.float32)
