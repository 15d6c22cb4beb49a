"""Torsos: from an observation as it is stored to the vector that an MLP reads.

observation --Torso--> features [..., num_features] --MLP (with the action, for a critic)--> heads
"""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from drivetrain.train.interface import Categories, Observations, Vector
from drivetrain.train.networks.mlp import MLP
from drivetrain.train.networks.network import Layout, Network, Pieces, length_of

TORSO = "torso."
"""How the names of a torso's pieces begin."""


class Torso(Protocol):
    """The shape of a torso; immutable and hashable."""

    @property
    def num_features(self) -> int:
        """Length of what comes out."""
        ...

    @property
    def layout(self) -> Layout:
        """The pieces."""
        ...

    @property
    def needs_jax(self) -> bool:
        """Whether `features` works on `jax.numpy` alone."""
        ...

    def initial(self, rng: np.random.Generator, gain: float | None) -> Pieces:
        """Fresh parameters: orthogonal with this gain, or uniform as MLP's where it is None."""
        ...

    def features(self, pieces: Pieces, obs: Any, xp: ModuleType) -> Any:
        """float32[..., num_features] of observations [..., *shape]. Pure."""
        ...


@dataclass(frozen=True)
class OneHot:
    """A torso without parameters, for categories."""

    counts: tuple[int, ...]
    """How many values each has."""

    @property
    def num_features(self) -> int:
        """All values of all of them."""
        return sum(self.counts)

    @property
    def layout(self) -> Layout:
        """Nothing."""
        return ()

    @property
    def needs_jax(self) -> bool:
        """No: NumPy serves."""
        return False

    def initial(self, rng: np.random.Generator, gain: float | None) -> Pieces:
        """Nothing."""
        del rng, gain
        return {}

    def features(self, pieces: Pieces, obs: Any, xp: ModuleType) -> Any:
        """Zeros, and a one at the value of each category."""
        del pieces
        parts = [obs[..., index, None] == xp.arange(count) for index, count in enumerate(self.counts)]
        return xp.concatenate(parts, -1).astype(np.float32)


@dataclass(frozen=True)
class TorsoNetwork:
    """A torso under an MLP; a `Network`. The torso's pieces are called "torso.NAME"."""

    torso: Torso
    """From the observation to features."""
    mlp: MLP
    """From features, and the action where there is one, to the heads."""

    @property
    def heads(self) -> tuple[tuple[str, int], ...]:
        """Those of the MLP."""
        return self.mlp.heads

    @property
    def layout(self) -> Layout:
        """The torso's pieces, then the MLP's."""
        return (*((TORSO + name, shape) for name, shape in self.torso.layout), *self.mlp.layout)

    @property
    def num_parameters(self) -> int:
        """Length of the vector."""
        return length_of(self.layout)

    @property
    def needs_jax(self) -> bool:
        """What the torso says."""
        return self.torso.needs_jax

    def initial(self, rng: np.random.Generator) -> Pieces:
        """Fresh parameters, float32."""
        gain = None if self.mlp.head_gains is None else float(np.sqrt(2))
        torso = self.torso.initial(rng, gain)
        return {**{TORSO + name: piece for name, piece in torso.items()}, **self.mlp.initial(rng)}

    def apply(self, pieces: Pieces, obs: Any, xp: ModuleType, action: Any = None) -> Pieces:
        """The outputs of every head, see `Network.apply`."""
        torso = {name.removeprefix(TORSO): piece for name, piece in pieces.items() if name.startswith(TORSO)}
        return self.mlp.apply(pieces, self.torso.features(torso, obs, xp), xp, action)


def build(observations: Observations, mlp: MLP) -> Network:
    """The network for an environment's observations.

    Args:
        observations: What goes in.
        mlp: What comes after; its `num_inputs` counts what goes in besides: 0, or the dimensions of an
            action.
    """
    torso = _torso(observations)
    if torso is None:
        assert isinstance(observations, Vector)
        return replace(mlp, num_inputs=mlp.num_inputs + observations.num_features)
    return TorsoNetwork(torso, replace(mlp, num_inputs=mlp.num_inputs + torso.num_features))


def _torso(observations: Observations) -> Torso | None:
    """None: the MLP takes the observation as it is."""
    if isinstance(observations, Categories):
        return OneHot(observations.counts)
    return None
