"""Networks: written once for JAX and NumPy, their parameters in named pieces.

    vector float32[P] --unpack--> {"hidden0.weight": [in, out], ...} --apply--> {head: [batch, width]}

Learning works on the pieces. The flat vector of the acting network is what the learner publishes
to actors and what a saved policy holds.

    network.py    Network, the protocol; packing and unpacking
    mlp.py        MLP: hidden layers and heads on a vector; a few rows of an actor's in one native call
    torsos.py     Torso: from an observation to a vector
    convolution.py  the torso for images
    build.py      TorsoNetwork, a torso under an MLP; which torso suits which observations
    noisy.py      Noisy: layers with learned noise
    custom.py     torsos of the user's own, and networks compiled for actors; imports JAX
    broadcasting.py  where our functions are traced, whatever the caller's JAX forbids; imports JAX
    products.py   the product by weights, in float32 or bfloat16 (rounded.py; imports JAX)
    joined.py     that vector within compiled code; imports JAX
    rectified.py  the product behind rectified units, without what is multiplied by zero; imports JAX
    twins.py      two networks of one shape, evaluated together
"""

from drivetrain.train.networks.build import (
    TORSO,
    TorsoNetwork,
    above_torso,
    acting,
    build,
    for_updates,
    learned_torso,
    with_convolutions,
)
from drivetrain.train.networks.convolution import SMALLEST_IMAGE, NatureCNN
from drivetrain.train.networks.mlp import MLP, Activation
from drivetrain.train.networks.network import Network, Pieces, initial_vector, length_of, pack, unpack
from drivetrain.train.networks.noisy import Noisy
from drivetrain.train.networks.torsos import Torso, within
from drivetrain.train.networks.twins import first_twin, initial_twins

__all__ = [
    "MLP",
    "SMALLEST_IMAGE",
    "TORSO",
    "Activation",
    "NatureCNN",
    "Network",
    "Noisy",
    "Pieces",
    "Torso",
    "TorsoNetwork",
    "above_torso",
    "acting",
    "build",
    "first_twin",
    "for_updates",
    "initial_twins",
    "initial_vector",
    "learned_torso",
    "length_of",
    "pack",
    "unpack",
    "with_convolutions",
    "within",
]
