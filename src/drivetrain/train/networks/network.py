"""What every network has in common: named pieces of parameters that pack into one flat vector."""

import math
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Pieces = dict[str, Any]
"""Arrays by name: parameters ("LAYER.weight" [inputs, outputs], "LAYER.bias" [outputs]), or outputs by head."""
Layout = tuple[tuple[str, tuple[int, ...]], ...]
"""(name, shape) of every piece, in the order of the vector."""


class Network(Protocol):
    """The shape of a network; immutable and hashable, so that compiled code can be kept by it."""

    @property
    def heads(self) -> tuple[tuple[str, int], ...]:
        """(name, width) of each output."""
        ...

    @property
    def layout(self) -> Layout:
        """The pieces."""
        ...

    def initial(self, rng: np.random.Generator) -> Pieces:
        """Fresh parameters, NumPy float32."""
        ...

    def apply(self, pieces: Pieces, obs: Any, xp: ModuleType, action: Any = None) -> Pieces:
        """The outputs of every head. Pure.

        Args:
            pieces: From `unpack`, `initial`, or `initial_twins`.
            obs: Observations as they are stored, [..., *shape] each.
            xp: The array module of both: `numpy` or `jax.numpy`.
            action: [..., num_actions], for networks that judge actions.

        Returns:
            {head: [..., width]}; of twins [2, ..., width].
        """
        ...


def length_of(network: Network) -> int:
    """Numbers in the vector of a network's pieces."""
    return sum(math.prod(shape) for _, shape in network.layout)


def initial_vector(network: Network, rng: np.random.Generator) -> NDArray[np.float32]:
    """Fresh parameters as a vector."""
    return pack(network, network.initial(rng))


def unpack(network: Network, vector: Any) -> Pieces:
    """Name the pieces of a parameter vector, NumPy's (views, no copies) or JAX's."""
    pieces: Pieces = {}
    start = 0
    for name, shape in network.layout:
        end = start + math.prod(shape)
        pieces[name] = vector[start:end].reshape(shape)
        start = end
    return pieces


def pack(network: Network, pieces: Pieces) -> NDArray[Any]:
    """The vector that `unpack` would take apart; a copy. In compiled code: `packed` (joined.py)."""
    return np.concatenate([np.ravel(pieces[name]) for name, _ in network.layout])
