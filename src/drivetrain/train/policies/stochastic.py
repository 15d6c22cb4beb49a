"""The acting of on-policy algorithms: a distribution over actions, whose parameters a network gives."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.train.config import PPOConfig
from drivetrain.train.interface import Arrays, Interface
from drivetrain.train.networks import MLP, Network, Pieces, build, unpack
from drivetrain.train.networks.network import Layout
from drivetrain.train.policies.distributions import DiagonalGaussian, Distribution, distribution_of

_POLICY_GAIN = 0.01  # first actions are nearly uniform, whatever is observed


@dataclass(frozen=True)
class LogStd:
    """A network and, beside it, one vector that is learned and no function of the observation; a `Network`."""

    inner: Network
    """Gives every other output."""
    size: int
    """Length of the vector."""
    start: float
    """All its numbers before learning."""

    @property
    def heads(self) -> tuple[tuple[str, int], ...]:
        """Those of the inner network, and "log_std"."""
        return (*self.inner.heads, ("log_std", self.size))

    @property
    def layout(self) -> Layout:
        """The inner network's, then the vector."""
        return (*self.inner.layout, ("log_std", (self.size,)))

    def initial(self, rng: np.random.Generator) -> Pieces:
        """Fresh parameters, float32."""
        return {**self.inner.initial(rng), "log_std": np.full(self.size, self.start, np.float32)}

    def apply(self, pieces: Pieces, obs: Any, xp: ModuleType, action: Any = None) -> Pieces:
        """The outputs of every head; "log_std" is [size], see `Network.apply`."""
        return {**self.inner.apply(pieces, obs, xp, action), "log_std": pieces["log_std"]}


def stochastic_network(agent: PPOConfig, interface: Interface) -> Network:
    """The network that says what an on-policy policy draws from."""
    distribution = distribution_of(interface)
    network = _network(agent, interface, distribution.heads, _POLICY_GAIN)
    if isinstance(distribution, DiagonalGaussian):
        return LogStd(network, distribution.size, agent.initial_log_std)
    return network


def value_network(agent: PPOConfig, interface: Interface) -> Network:
    """The network that says what an observation is worth."""
    return _network(agent, interface, (("value", 1),), 1.0)


def _network(agent: PPOConfig, interface: Interface, heads: tuple[tuple[str, int], ...], gain: float) -> Network:
    mlp = MLP(num_inputs=0, hidden=agent.hidden, heads=heads, activation=agent.activation, head_gains=(gain,))
    return build(interface.observations, mlp, agent.torso)


class Stochastic:
    """The policy of an on-policy algorithm: draws from a distribution, or takes its mode."""

    def __init__(self, network: Network, vector: NDArray[np.float32], distribution: Distribution) -> None:
        self._network = network
        self._pieces = unpack(network, vector)
        self._distribution = distribution

    def act(self, obs: Arrays) -> NDArray[Any]:
        """The most probable action."""
        return self._distribution.mode(self._network.apply(self._pieces, obs, np))

    def explore(
        self, obs: Arrays, step: int, rng: np.random.Generator, noise: NDArray[np.float32] | None = None
    ) -> NDArray[Any]:
        """A draw, the same at every step of the run."""
        del step, noise
        return self._distribution.sample(self._network.apply(self._pieces, obs, np), rng)
