"""Noisy layers: dense layers whose weights carry learned noise, the exploration of Rainbow.

    pieces, noise --perturbed--> pieces of the network without noise --apply--> outputs

NumPy's actors and the learner's JAX use the same function, so that equal noise means equal networks.
"""

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from drivetrain.train.networks.network import Layout, Network, Pieces

SIGMA = ".sigma"
"""How the names of the noise's scales end."""


@dataclass(frozen=True, kw_only=True)
class Noisy:
    """A network and the noise of its MLP's layers; a `Network`. A torso has no noise.

    Weights are mu + sigma * f(e_in) f(e_out)^T and biases mu + sigma * f(e_out), with standard normal
    e and f(x) = sign(x) sqrt|x|: factorised noise. `apply` leaves the noise out.

    Reference: Fortunato et al. 2018, arXiv:1706.10295, sections 3 and 3.2.
    """

    inner: Network
    """The network without noise."""
    layers: tuple[tuple[str, int, int], ...]
    """(name, inputs, outputs) of the layers that get noise."""
    sigma: float
    """Scale of the noise at the start, times 1/sqrt(inputs)."""

    @property
    def heads(self) -> tuple[tuple[str, int], ...]:
        """Those of the network without noise."""
        return self.inner.heads

    @property
    def layout(self) -> Layout:
        """The network's pieces, then a scale for each number of the noisy layers."""
        return (
            *self.inner.layout,
            *(
                piece
                for name, num_in, num_out in self.layers
                for piece in ((f"{name}.weight{SIGMA}", (num_in, num_out)), (f"{name}.bias{SIGMA}", (num_out,)))
            ),
        )

    @property
    def num_noise(self) -> int:
        """Standard normal numbers that one noise takes: inputs and outputs of each layer."""
        return sum(num_in + num_out for _, num_in, num_out in self.layers)

    def initial(self, rng: np.random.Generator) -> Pieces:
        """Fresh parameters, float32."""
        pieces = self.inner.initial(rng)
        for name, num_in, num_out in self.layers:
            scale = np.float32(self.sigma / math.sqrt(num_in))
            pieces[f"{name}.weight{SIGMA}"] = np.full((num_in, num_out), scale)
            pieces[f"{name}.bias{SIGMA}"] = np.full(num_out, scale)
        return pieces

    def apply(self, pieces: Pieces, obs: Any, xp: ModuleType, action: Any = None) -> Pieces:
        """The outputs of every head without noise, see `Network.apply`."""
        return self.inner.apply(pieces, obs, xp, action)

    def perturbed(self, pieces: Pieces, noise: Any, xp: ModuleType) -> Pieces:
        """The pieces with a noise float[num_noise] of standard normal numbers in them."""
        squashed = xp.sign(noise) * xp.sqrt(xp.abs(noise))
        noisy, start = dict(pieces), 0
        for name, num_in, num_out in self.layers:
            of_inputs = squashed[start : start + num_in]
            of_outputs = squashed[start + num_in : start + num_in + num_out]
            start += num_in + num_out
            weight, bias = f"{name}.weight", f"{name}.bias"
            noisy[weight] = pieces[weight] + pieces[weight + SIGMA] * (of_inputs[:, None] * of_outputs)
            noisy[bias] = pieces[bias] + pieces[bias + SIGMA] * of_outputs
        return noisy
