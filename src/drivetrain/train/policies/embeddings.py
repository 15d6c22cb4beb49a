"""Stored embeddings: after some steps encoders are frozen, and the replay keeps what they give in place of images.

    before   images --------------------> replay -> torsos -> hidden layers      all of it learns
    switch   torsos of the checkpoint are frozen; its replay's images -> embeddings
    after    images -> frozen torsos ---> replay -----------> hidden layers      these learn

An encoder is a torso, down to the vector that hidden layers read. The switch is made between two parts of a run, each
with processes of its own, in the checkpoint that lies between them (design/training-embeddings.md). What is published
and saved are whole networks throughout: evaluation and saved policies know nothing of all this.

Differences from the paper:
- The replay keeps its number of rows, and takes less memory.
- Targets look through the online networks' encoders from the switch on, not through slower copies.

Reference: Chen et al. 2021, arXiv:2103.02886.
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Arrays, Embedding, Entries, Interface, num_rows, rows_of
from drivetrain.train.networks import TORSO, Pieces, Torso, learned_torso, length_of, with_convolutions, within
from drivetrain.train.policies.policy import Policy, make_policy, policy_network

_PREFIX = "encoder/"
_ROWS_AT_ONCE = 64
_ACTOR_CRITIC = {"actor": "state/actor/", "critic": "state/critics/"}
_LEARNED = {
    "dqn": {"actor": "state/params/"},
    "ddpg": {"actor": "state/online/actor/", "critic": "state/online/critic/"},
    "td3": _ACTOR_CRITIC,
    "sac": _ACTOR_CRITIC,
}
"""Where a checkpoint has the pieces of the networks, by algorithm and by who looks through them."""


def require_encoder(config: TrainConfig, interface: Interface) -> None:
    """Refuse to freeze what is not there.

    Raises:
        InvalidInput: The run is to store embeddings, and its environment shows no images, or its torso learns nothing.
    """
    if config.on_policy or config.updates.freeze_encoder_after is None:
        return
    if not interface.has_images:
        raise InvalidInput(
            f"freeze_encoder_after: environment {config.env!r} shows no images, whose encoder could be frozen; "
            "leave it out"
        )
    if learned_torso(policy_network(config, interface)) is None:
        raise InvalidInput(
            "freeze_encoder_after: the torso has no parameters that could be frozen; leave it out, or have the "
            "environment show what the torso makes of its pictures"
        )


@dataclass(frozen=True, kw_only=True)
class Encoders:
    """The frozen torsos of a run, by who looks through them: "actor", and "critic" where there is one."""

    torso: Torso
    """The shape of all of them."""
    pieces: Mapping[str, Pieces]
    """Their parameters."""
    rows_at_once: int
    """Observations that they are shown together: one where bits must not depend on how many there are."""

    @classmethod
    def learned(cls, config: TrainConfig, interface: Interface, arrays: Mapping[str, NDArray[Any]]) -> "Encoders":
        """Those that a checkpoint's networks have."""
        return cls._at(config, interface, arrays, {who: at + TORSO for who, at in _LEARNED[config.algo].items()})

    @classmethod
    def frozen(
        cls, config: TrainConfig, interface: Interface, arrays: Mapping[str, NDArray[Any]] | None
    ) -> "Encoders | None":
        """Those that a checkpoint keeps beside the state, see `arrays`; None while they still learn."""
        if arrays is None or not any(name.startswith(_PREFIX) for name in arrays):
            return None
        return cls._at(config, interface, arrays, {who: f"{_PREFIX}{who}/" for who in _LEARNED[config.algo]})

    @classmethod
    def _at(
        cls, config: TrainConfig, interface: Interface, arrays: Mapping[str, NDArray[Any]], places: Mapping[str, str]
    ) -> "Encoders":
        return cls(
            torso=_torso_of(config, interface),
            pieces={who: within(prefix, dict(arrays)) for who, prefix in places.items()},
            rows_at_once=1 if config.run.deterministic else _ROWS_AT_ONCE,
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint holds of them."""
        return {f"{_PREFIX}{who}/{name}": array for who, own in self.pieces.items() for name, array in own.items()}

    def embed(self, observations: Arrays) -> dict[str, NDArray[np.float32]]:
        """What the encoders make of observations [N, *shape]: float32[N, num_features] for each."""
        step = self.rows_at_once
        parts = [rows_of(observations, slice(i, i + step)) for i in range(0, num_rows(observations), step)]
        return {who: np.concatenate([self._features(own, part) for part in parts]) for who, own in self.pieces.items()}

    def policy(self, config: TrainConfig, interface: Interface, vector: NDArray[np.float32]) -> Policy:
        """The policy on embeddings, of the published vector of the whole network: torsos come first in it."""
        seen = embedded(config, interface)
        return make_policy(config, seen, vector[len(vector) - length_of(policy_network(config, seen)) :])

    @cached_property
    def vector(self) -> NDArray[np.float32]:
        """What is frozen of the acting network: the beginning of its published vector."""
        acting = self.pieces["actor"]
        return np.concatenate([np.ravel(acting[name]) for name, _ in self.torso.layout])

    @cached_property
    def _features(self) -> Callable[[Pieces, Arrays], NDArray[np.float32]]:
        if not self.torso.needs_jax:
            return lambda pieces, obs: self.torso.features(pieces, obs, np)
        import jax  # only where the torso is the user's own

        def features(pieces: Pieces, obs: Arrays) -> Any:
            return self.torso.features(pieces, obs, jax.numpy)

        compiled: Any = jax.jit(features)
        return lambda pieces, obs: np.asarray(compiled(pieces, obs))


def embedded(config: TrainConfig, interface: Interface) -> Interface:
    """What the learner and the replay see of an environment once encoders are frozen: an embedding for each."""
    embedding = Embedding(width=_torso_of(config, interface).num_features)
    entries = Entries(entries=tuple((who, embedding) for who in _LEARNED[config.algo]), paths=())
    return replace(interface, observations=entries, frame_stack=1)


def without_encoders(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """A checkpoint's arrays without what its state has of torsos: parameters, targets and moments."""
    return {name: array for name, array in arrays.items() if not (name.startswith("state/") and f"/{TORSO}" in name)}


def _torso_of(config: TrainConfig, interface: Interface) -> Torso:
    torso = learned_torso(policy_network(config, interface))
    assert torso is not None, "images have a torso"
    return with_convolutions(torso, is_acting=True)
