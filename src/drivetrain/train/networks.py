"""Multilayer perceptrons, written once for JAX and NumPy, with parameters in named pieces.

    vector float32[P] --unpack--> {"hidden0.weight": [in, out], ...} --forward--> {head: [batch, width]}

Learning works on the pieces. The flat vector of the acting network is what the learner publishes
to actors and what a saved policy holds. Unpacking makes views, never copies (NumPy).
"""

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pieces = dict[str, Any]
"""Parameters by name: "LAYER.weight" [inputs, outputs] and "LAYER.bias" [outputs]."""


@dataclass(frozen=True, kw_only=True)
class MLP:
    """The shape of a multilayer perceptron with ReLU: hidden layers, then one or more heads."""

    num_inputs: int
    """Length of an input."""
    hidden: tuple[int, ...]
    """Widths of the hidden layers."""
    heads: tuple[tuple[str, int], ...]
    """(name, width) of each output layer; all read the last hidden layer."""

    @property
    def layers(self) -> list[tuple[str, int, int]]:
        """(name, inputs, outputs) of every dense layer, in the order of the vector."""
        widths = [self.num_inputs, *self.hidden]
        torso = [(f"hidden{i}", widths[i], widths[i + 1]) for i in range(len(self.hidden))]
        return torso + [(name, widths[-1], width) for name, width in self.heads]

    @property
    def num_parameters(self) -> int:
        """Length of the vector."""
        return sum((num_in + 1) * num_out for _, num_in, num_out in self.layers)


def initial_vector(network: MLP, rng: np.random.Generator) -> NDArray[np.float32]:
    """Fresh parameters: uniform in +-1/sqrt(inputs), weights and biases alike (PyTorch's default)."""
    parts = [
        rng.uniform(-1.0, 1.0, (num_in + 1) * num_out) / math.sqrt(num_in) for _, num_in, num_out in network.layers
    ]
    return np.concatenate(parts).astype(np.float32)


def initial_twins(network: MLP, rng: np.random.Generator) -> Pieces:
    """Two independent networks of one shape, stacked: every piece has a leading axis [2].

    `forward` takes them as they are and gives outputs [2, batch, width]: both in one product.
    """
    pair = [unpack(network, initial_vector(network, rng)) for _ in range(2)]
    stacked = {name: np.stack([pieces[name] for pieces in pair]) for name in pair[0]}
    return {name: piece[:, None] if name.endswith(".bias") else piece for name, piece in stacked.items()}


def unpack(network: MLP, vector: Any) -> Pieces:
    """Name the pieces of a parameter vector, NumPy's or JAX's."""
    pieces: Pieces = {}
    start = 0
    for name, num_in, num_out in network.layers:
        end = start + num_in * num_out
        pieces[f"{name}.weight"] = vector[start:end].reshape(num_in, num_out)
        pieces[f"{name}.bias"] = vector[end : end + num_out]
        start = end + num_out
    return pieces


def pack(network: MLP, pieces: Pieces) -> NDArray[np.float32]:
    """The vector that `unpack` would take apart; a copy."""
    parts = [np.ravel(pieces[f"{name}.{part}"]) for name, _, _ in network.layers for part in ("weight", "bias")]
    return np.concatenate(parts)


def forward(network: MLP, pieces: Pieces, inputs: Any, xp: ModuleType) -> Pieces:
    """The outputs of every head.

    Args:
        network: The shape.
        pieces: From `unpack`, or from `initial_twins`.
        inputs: [..., num_inputs].
        xp: The array module of both: `numpy` or `jax.numpy`.

    Returns:
        {head: [..., width]}; of twins [2, ..., width].
    """
    features = inputs
    for index in range(len(network.hidden)):
        hidden = features @ pieces[f"hidden{index}.weight"] + pieces[f"hidden{index}.bias"]
        features = xp.maximum(hidden, 0)
    return {name: features @ pieces[f"{name}.weight"] + pieces[f"{name}.bias"] for name, _ in network.heads}
