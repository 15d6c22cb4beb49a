"""Two networks of one shape, evaluated together: every stacked piece has a leading axis [2].

A torso is not stacked: the twins share it, as Stable-Baselines3's critics share their feature
extractor.
"""

import numpy as np

from drivetrain.train.networks.build import TORSO
from drivetrain.train.networks.network import Network, Pieces


def initial_twins(network: Network, rng: np.random.Generator) -> Pieces:
    """Two independent sets of parameters, stacked.

    `Network.apply` takes them as they are and gives outputs [2, batch, width]: both in one product.
    """
    first, second = (network.initial(rng) for _ in range(2))
    return {
        name: piece if name.startswith(TORSO) else _stacked(name, piece, second[name]) for name, piece in first.items()
    }


def first_twin(pieces: Pieces) -> Pieces:
    """The first of both, still with a leading axis [1]."""
    return {name: piece if name.startswith(TORSO) else piece[:1] for name, piece in pieces.items()}


def _stacked(name: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    pair = np.stack([first, second])
    return pair[:, None] if name.endswith(".bias") else pair  # biases broadcast over the batch
