"""Torsos: from an observation as it is stored to the vector that an MLP reads.

observation --Torso--> features [..., num_features] --MLP (with the action, for a critic)--> heads

Flat            Vector: its numbers, scaled
OneHot          Categories
NatureCNN       Image (convolution.py)
Concatenation   Entries: a torso for each, one after the other
Part            Entries of Embedding: one of them
"""

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from drivetrain.train.networks.network import Layout, Pieces


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


class WithoutParameters:
    """What torsos have in common that learn nothing."""

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


@dataclass(frozen=True)
class Flat(WithoutParameters):
    """A torso without parameters, for numbers: flattened, as float32, scaled."""

    shape: tuple[int, ...]
    """Of one observation."""
    scale: float
    """What they are multiplied by."""

    @property
    def num_features(self) -> int:
        """All numbers."""
        return math.prod(self.shape)

    def features(self, pieces: Pieces, obs: Any, xp: ModuleType) -> Any:
        """The numbers times the scale."""
        del pieces, xp
        lead = obs.shape[: obs.ndim - len(self.shape)]
        return obs.reshape(*lead, self.num_features).astype(np.float32) * np.float32(self.scale)


@dataclass(frozen=True)
class OneHot(WithoutParameters):
    """A torso without parameters, for categories."""

    counts: tuple[int, ...]
    """How many values each has."""

    @property
    def num_features(self) -> int:
        """All values of all of them."""
        return sum(self.counts)

    def features(self, pieces: Pieces, obs: Any, xp: ModuleType) -> Any:
        """Zeros, and a one at the value of each category."""
        del pieces
        parts = [obs[..., index, None] == xp.arange(count) for index, count in enumerate(self.counts)]
        return xp.concatenate(parts, -1).astype(np.float32)


@dataclass(frozen=True)
class Concatenation:
    """A torso for each entry of an observation, their features one after the other."""

    parts: tuple[tuple[str, Torso], ...]
    """(entry, torso); the pieces of a torso are called "ENTRY:NAME"."""

    @property
    def num_features(self) -> int:
        """Those of all parts."""
        return sum(torso.num_features for _, torso in self.parts)

    @property
    def layout(self) -> Layout:
        """Those of all parts."""
        return tuple((f"{entry}:{name}", shape) for entry, torso in self.parts for name, shape in torso.layout)

    @property
    def needs_jax(self) -> bool:
        """Whether any part does."""
        return any(torso.needs_jax for _, torso in self.parts)

    def initial(self, rng: np.random.Generator, gain: float | None) -> Pieces:
        """Fresh parameters of all parts."""
        return {
            f"{entry}:{name}": piece for entry, torso in self.parts for name, piece in torso.initial(rng, gain).items()
        }

    def features(self, pieces: Pieces, obs: Any, xp: ModuleType) -> Any:
        """The features of all parts, for observations {entry: [..., *shape]}."""
        found = [torso.features(within(f"{entry}:", pieces), obs[entry], xp) for entry, torso in self.parts]
        return xp.concatenate(found, -1)


@dataclass(frozen=True)
class Part(WithoutParameters):
    """A torso without parameters: one entry of an observation as it is."""

    entry: str
    """Its name."""
    num_features: int
    """Its width."""

    def features(self, pieces: Pieces, obs: Any, xp: ModuleType) -> Any:
        """The entry."""
        del pieces, xp
        return obs[self.entry]


def within(prefix: str, pieces: Pieces) -> Pieces:
    """The pieces whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): piece for name, piece in pieces.items() if name.startswith(prefix)}
