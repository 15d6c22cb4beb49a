"""Distributions over actions, written once for NumPy (acting) and JAX (learning).

    network outputs --sample (either)--> actions --log_prob, entropy (either)--> the loss

Outputs are a dict of arrays [..., width] by head; actions are what is stored.
"""

import itertools
import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from drivetrain.train.interface import DiscreteActions, Interface, MultiDiscreteActions
from drivetrain.train.networks import Pieces

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_SMALLEST = np.finfo(np.float32).tiny


class Draws(Protocol):
    """Where chance comes from: a NumPy generator, or what draws the same from a JAX key."""

    def standard_exponential(self, size: Any, dtype: Any, /) -> Any:
        """Independent exponential numbers of mean 1."""
        ...

    def standard_normal(self, size: Any, dtype: Any, /) -> Any:
        """Independent normal numbers of mean 0 and variance 1."""
        ...


class Distribution(Protocol):
    """The kind of a policy's randomness; immutable and hashable."""

    @property
    def heads(self) -> tuple[tuple[str, int], ...]:
        """(name, width) of what a network has to say about an observation."""
        ...

    def sample(self, outputs: Pieces, rng: Draws, xp: ModuleType = np) -> Any:
        """Actions [..., ...], by the draws of a generator of the array module's."""
        ...

    def mode(self, outputs: Pieces) -> NDArray[Any]:
        """The most probable actions [num_envs, ...]."""
        ...

    def log_prob(self, outputs: Pieces, action: Any, xp: ModuleType) -> Any:
        """Logarithm of the probability or density of actions: [...]."""
        ...

    def entropy(self, outputs: Pieces, xp: ModuleType) -> Any:
        """Entropy in nats: [...]."""
        ...


@dataclass(frozen=True)
class Categorical:
    """One of `count` actions, by unnormalised log probabilities ("logits")."""

    count: int
    """Actions."""

    @property
    def heads(self) -> tuple[tuple[str, int], ...]:
        """The logits."""
        return (("logits", self.count),)

    def sample(self, outputs: Pieces, rng: Draws, xp: ModuleType = np) -> Any:
        """By exponential races: argmax of logit - log(exponential) has the softmax's probabilities."""
        logits = outputs["logits"]
        drawn = xp.maximum(rng.standard_exponential(logits.shape, np.float32), _SMALLEST)  # one in 10^7 is rounded to 0
        return (logits - xp.log(drawn)).argmax(-1)

    def mode(self, outputs: Pieces) -> NDArray[np.int64]:
        """The action of largest logit; the first among equals."""
        return outputs["logits"].argmax(-1)

    def log_prob(self, outputs: Pieces, action: Any, xp: ModuleType) -> Any:
        """Of int[...]."""
        log_probs = log_softmax(outputs["logits"], xp)
        return xp.take_along_axis(log_probs, action[..., None], -1)[..., 0]

    def entropy(self, outputs: Pieces, xp: ModuleType) -> Any:
        """Minus sum p log p."""
        log_probs = log_softmax(outputs["logits"], xp)
        return -(xp.exp(log_probs) * log_probs).sum(-1)


@dataclass(frozen=True)
class MultiCategorical:
    """Several choices at once, each a `Categorical` of its own; an action is int[..., len(counts)]."""

    counts: tuple[int, ...]
    """Actions of each."""

    @property
    def heads(self) -> tuple[tuple[str, int], ...]:
        """The logits of all of them, one after the other."""
        return (("logits", sum(self.counts)),)

    def sample(self, outputs: Pieces, rng: Draws, xp: ModuleType = np) -> Any:
        """Each by itself."""
        return xp.stack([kind.sample(part, rng, xp) for kind, part in self._factors(outputs)], -1)

    def mode(self, outputs: Pieces) -> NDArray[np.int64]:
        """Each by itself."""
        return np.stack([kind.mode(part) for kind, part in self._factors(outputs)], -1)

    def log_prob(self, outputs: Pieces, action: Any, xp: ModuleType) -> Any:
        """Of int[..., len(counts)]: the sum over the choices."""
        return sum(
            kind.log_prob(part, action[..., index], xp) for index, (kind, part) in enumerate(self._factors(outputs))
        )

    def entropy(self, outputs: Pieces, xp: ModuleType) -> Any:
        """The sum over the choices."""
        return sum(kind.entropy(part, xp) for kind, part in self._factors(outputs))

    def _factors(self, outputs: Pieces) -> list[tuple[Categorical, Pieces]]:
        ends = list(itertools.accumulate(self.counts))
        return [
            (Categorical(count), {"logits": outputs["logits"][..., end - count : end]})
            for count, end in zip(self.counts, ends, strict=True)
        ]


@dataclass(frozen=True)
class DiagonalGaussian:
    """Independent normal numbers, by their means and logarithms of their standard deviations.

    Not squashed: a sample may lie beyond -1..1, and the environment then takes the bound.
    """

    size: int
    """Numbers in an action."""

    @property
    def heads(self) -> tuple[tuple[str, int], ...]:
        """The means. "log_std" comes from a `LogStd` network, independent of the observation."""
        return (("mean", self.size),)

    def sample(self, outputs: Pieces, rng: Draws, xp: ModuleType = np) -> Any:
        """Mean plus scaled noise."""
        mean = outputs["mean"]
        return mean + xp.exp(outputs["log_std"]) * rng.standard_normal(mean.shape, np.float32)

    def mode(self, outputs: Pieces) -> NDArray[np.float32]:
        """The mean."""
        return outputs["mean"]

    def log_prob(self, outputs: Pieces, action: Any, xp: ModuleType) -> Any:
        """Of float[..., size]."""
        mean, log_std = outputs["mean"], outputs["log_std"]
        z = (action - mean) * xp.exp(-log_std)
        return -(0.5 * z * z + log_std + _HALF_LOG_2PI).sum(-1)

    def entropy(self, outputs: Pieces, xp: ModuleType) -> Any:
        """Of each observation the same."""
        one = (outputs["log_std"] + 0.5 + _HALF_LOG_2PI).sum(-1)
        return xp.broadcast_to(one, outputs["mean"].shape[:-1])


def log_softmax(logits: Any, xp: ModuleType) -> Any:
    """Logarithms of probabilities, from what they are proportional to: [..., n]."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - xp.log(xp.exp(shifted).sum(-1, keepdims=True))


def distribution_of(interface: Interface) -> Distribution:
    """The kind that an environment's actions call for."""
    if isinstance(interface.actions, DiscreteActions):
        return Categorical(interface.num_actions)
    if isinstance(interface.actions, MultiDiscreteActions):
        return MultiCategorical(interface.actions.counts)
    return DiagonalGaussian(interface.num_actions)
