"""The network for an environment's observations: a torso chosen by what they are, under an MLP."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, cast

import numpy as np

from drivetrain.train.config import Precision
from drivetrain.train.interface import Categories, Embedding, Entries, Entry, Image, Observations, Vector
from drivetrain.train.networks.convolution import NatureCNN
from drivetrain.train.networks.mlp import MLP
from drivetrain.train.networks.network import Layout, Network, Pieces
from drivetrain.train.networks.torsos import Concatenation, Flat, OneHot, Part, Torso, within

AUTO = "auto"
"""The setting by which the torso is chosen by what is observed."""
TORSO = "torso."
"""How the names of a torso's pieces begin."""


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

    def initial(self, rng: np.random.Generator) -> Pieces:
        """Fresh parameters, float32."""
        gain = None if self.mlp.head_gains is None else math.sqrt(2)
        torso = self.torso.initial(rng, gain)
        return {**{TORSO + name: piece for name, piece in torso.items()}, **self.mlp.initial(rng)}

    def apply(self, pieces: Pieces, obs: Any, xp: ModuleType, action: Any = None) -> Pieces:
        """The outputs of every head, see `Network.apply`."""
        return self.mlp.apply(pieces, self.torso.features(within(TORSO, pieces), obs, xp), xp, action)


def build(observations: Observations, mlp: MLP, torso: str = AUTO, who: str = "actor") -> Network:
    """The network for an environment's observations.

    Args:
        observations: What goes in.
        mlp: What comes after; its `num_inputs` counts what goes in besides: 0, or the dimensions of an
            action.
        torso: "auto" chooses by what is observed; else the user's own, "module:name" or Given. Embeddings, which a
            torso has made, need none.
        who: Whose embedding it looks at, where observations are embeddings: "actor" or "critic".

    Raises:
        InvalidInput: The user's torso does not fit.
    """
    chosen = _part(observations, who)
    if chosen is None:
        chosen = _suitable(observations) if torso == AUTO else _custom(torso, observations)
    on_features = replace(mlp, num_inputs=mlp.num_inputs + chosen.num_features)
    if isinstance(chosen, Flat) and observations == Vector(shape=(chosen.num_features,)):
        return on_features  # float32, flat, unscaled: the features are the observation
    return TorsoNetwork(chosen, on_features)


def learned_torso(network: Network) -> Torso | None:
    """The torso under a network; None where there is none, or none that learns."""
    if isinstance(network, TorsoNetwork):
        return network.torso if network.torso.layout else None
    return None if isinstance(network, MLP) else learned_torso(cast(Any, network).inner)


def above_torso(network: Network) -> Network:
    """The network that reads what the torso of this one makes; it finds its own pieces among all of them."""
    if isinstance(network, TorsoNetwork):
        return network.mlp
    return network if isinstance(network, MLP) else _around(network, above_torso)


def acting(network: Network) -> Network:
    """The network for an actor, whose arrays are NumPy's and whose rows are few."""
    if isinstance(network, MLP):
        return replace(network, is_acting=True)
    if isinstance(network, TorsoNetwork):
        if not network.torso.needs_jax:
            torso = with_convolutions(network.torso, is_acting=True)
            return TorsoNetwork(torso, replace(network.mlp, is_acting=True))
        from drivetrain.train.networks.custom import Compiled  # imports jax: only where it is needed

        return Compiled(network)
    return _around(network, acting)


def for_updates(network: Network, precision: Precision) -> Network:
    """The network as a learner computes it: its products in a precision, by calls of ours where those pay.

    Torsos of the user's own stay as they are.
    """
    if isinstance(network, MLP):
        return replace(network, precision=precision, is_learning=True)
    if isinstance(network, TorsoNetwork):
        mlp = for_updates(network.mlp, precision)
        assert isinstance(mlp, MLP)
        return TorsoNetwork(with_convolutions(network.torso, precision=precision, is_learning=True), mlp)
    return _around(network, lambda inner: for_updates(inner, precision))


def _around(network: Network, change: Callable[[Network], Network]) -> Network:
    """A network around another, which is changed: Noisy, or one with a vector beside."""
    around = cast(Any, network)
    return replace(around, inner=change(around.inner))


def with_convolutions(torso: Torso, **settings: Any) -> Torso:
    """The torso whose convolutions are computed so; the user's own stays as it is."""
    if isinstance(torso, Concatenation):
        return Concatenation(tuple((entry, with_convolutions(part, **settings)) for entry, part in torso.parts))
    return replace(torso, **settings) if isinstance(torso, NatureCNN) else torso


def _part(observations: Observations, who: str) -> Part | None:
    """The embedding of who looks; None where there are none."""
    found = dict(observations.entries).get(who) if isinstance(observations, Entries) else None
    return Part(who, found.width) if isinstance(found, Embedding) else None


def _custom(torso: str, observations: Observations) -> Torso:
    from drivetrain.train.networks.custom import CustomTorso  # imports jax: only where it is needed

    return CustomTorso(torso, observations)


def _suitable(observations: Observations) -> Torso:
    if isinstance(observations, Entries):
        return Concatenation(tuple((name, _torso_for(entry)) for name, entry in observations.entries))
    return _torso_for(observations)


def _torso_for(entry: Entry) -> Torso:
    assert not isinstance(entry, Embedding), "embeddings are looked at by name"
    if isinstance(entry, Categories):
        return OneHot(entry.counts)
    if isinstance(entry, Image):
        return NatureCNN(entry.shape, entry.axes)
    return Flat(entry.shape, entry.scale)
