"""The vector of a network's pieces within compiled code; JAX alone."""

from typing import Any

from drivetrain.train.native_calls import joined
from drivetrain.train.networks.network import Network, Pieces


def packed(network: Network, pieces: Pieces) -> Any:
    """The vector that `unpack` would take apart, of JAX's arrays."""
    return joined(*(pieces[name] for name, _ in network.layout))
