"""The Q-network, written once for JAX and NumPy, with its parameters in one flat float32 vector.

    vector float32[P] --unpack--> {"hidden0.weight": [in, out], ...} --q_values--> [batch, actions]

One vector is what Adam steps over, what the learner publishes to actors, what a checkpoint holds,
and what learners will average in one message. Unpacking makes views, never copies (NumPy).
"""

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Network:
    """The shape of a multilayer perceptron with ReLU, and optionally a dueling head."""

    num_inputs: int
    """Length of an observation."""
    hidden: tuple[int, ...]
    """Widths of the hidden layers."""
    num_actions: int
    """Outputs, one Q-value each."""
    dueling: bool
    """Value and advantage heads instead of one."""

    @property
    def layers(self) -> list[tuple[str, int, int]]:
        """(name, inputs, outputs) of every dense layer, in the order of the vector."""
        widths = [self.num_inputs, *self.hidden]
        torso = [(f"hidden{i}", widths[i], widths[i + 1]) for i in range(len(self.hidden))]
        heads = [("action", widths[-1], self.num_actions)]
        return torso + heads + ([("value", widths[-1], 1)] if self.dueling else [])

    @property
    def num_parameters(self) -> int:
        """Length of the vector."""
        return sum((num_in + 1) * num_out for _, num_in, num_out in self.layers)


def initial_vector(network: Network, rng: np.random.Generator) -> NDArray[np.float32]:
    """Fresh parameters: uniform in +-1/sqrt(inputs), weights and biases alike (PyTorch's default)."""
    parts = [
        rng.uniform(-1.0, 1.0, (num_in + 1) * num_out) / math.sqrt(num_in) for _, num_in, num_out in network.layers
    ]
    return np.concatenate(parts).astype(np.float32)


def unpack(network: Network, vector: Any) -> dict[str, Any]:
    """Name the pieces of a parameter vector, NumPy's or JAX's."""
    pieces: dict[str, Any] = {}
    start = 0
    for name, num_in, num_out in network.layers:
        end = start + num_in * num_out
        pieces[f"{name}.weight"] = vector[start:end].reshape(num_in, num_out)
        pieces[f"{name}.bias"] = vector[end : end + num_out]
        start = end + num_out
    return pieces


def pack(network: Network, pieces: dict[str, Any], xp: ModuleType) -> Any:
    """The vector that `unpack` would take apart; `xp` is the pieces' array module."""
    return xp.concatenate(
        [pieces[f"{name}.{part}"].ravel() for name, _, _ in network.layers for part in ("weight", "bias")]
    )


def q_values(network: Network, pieces: dict[str, Any], observations: Any, xp: ModuleType) -> Any:
    """Q(s, a) for every action.

    Args:
        network: The shape.
        pieces: From `unpack`.
        observations: [..., num_inputs].
        xp: The array module of both: `numpy` or `jax.numpy`.

    Returns:
        [..., num_actions]. With a dueling head, Q = V + A - mean(A) (Wang et al. 2016, eq. 9).
    """
    features = observations
    for index in range(len(network.hidden)):
        hidden = features @ pieces[f"hidden{index}.weight"] + pieces[f"hidden{index}.bias"]
        features = xp.maximum(hidden, 0)
    q = features @ pieces["action.weight"] + pieces["action.bias"]
    if network.dueling:
        value = features @ pieces["value.weight"] + pieces["value.bias"]
        q = value + q - q.mean(-1, keepdims=True)
    return q


class Policy:
    """Greedy acting by NumPy on a parameter vector that somebody else may overwrite.

    Args:
        network: The shape.
        vector: float32[num_parameters]; the policy looks at it, it does not copy it.
    """

    def __init__(self, network: Network, vector: NDArray[np.float32]) -> None:
        self._network = network
        self._pieces = unpack(network, vector)

    def act(self, observations: NDArray[np.float32]) -> NDArray[np.int64]:
        """The action of largest Q for each of [num_envs, num_inputs]; the first among equals."""
        return q_values(self._network, self._pieces, observations, np).argmax(-1)
