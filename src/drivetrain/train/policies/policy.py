"""What an agent does in an environment, by NumPy: actors and the evaluator import no framework.

    policy_network(config, interface) -> Network    the network whose parameters are published
    make_policy(config, interface, vector) -> Policy on what is published: weights, then means and deviations
        act      the best action, for evaluation
        explore  the action for gathering experience

Actions are what the replay stores: int64 in 0..n-1, or float32 in -1..1 per dimension.
"""

from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from drivetrain.train.config import DDPGConfig, DQNConfig, PPOConfig, SACConfig, TD3Config, TrainConfig
from drivetrain.train.interface import Arrays, Interface, num_rows
from drivetrain.train.networks import MLP, Network, Noisy, Pieces, acting, build, initial_vector, length_of, unpack
from drivetrain.train.normalization import Normalization
from drivetrain.train.policies.distributions import distribution_of
from drivetrain.train.policies.q_networks import q_network, q_values
from drivetrain.train.policies.stochastic import Stochastic, stochastic_network

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
"""Bounds on the log standard deviation of a squashed Gaussian (Haarnoja et al. 2018)."""


class Policy(Protocol):
    """Acts on batches of observations, as they are stored (interface.Arrays)."""

    def act(self, obs: Arrays) -> NDArray[Any]:
        """The action taken for best return: deterministic."""
        ...

    def explore(
        self, obs: Arrays, step: int, rng: np.random.Generator, noise: NDArray[np.float32] | None = None
    ) -> NDArray[Any]:
        """The action taken while learning.

        Args:
            obs: [num_envs, ...].
            step: The run's environment step.
            rng: What is drawn from.
            noise: Standard normal numbers [num_envs, num_actions] for a policy of continuous actions to take in place
                of its own draws (`CorrelatedNoise`).
        """
        ...


def policy_network(config: TrainConfig, interface: Interface) -> Network:
    """The network that acts."""
    agent, width = config.agent, interface.num_actions
    if isinstance(agent, PPOConfig):
        return stochastic_network(agent, interface)
    if isinstance(agent, DQNConfig):
        return q_network(interface.observations, width, agent)
    heads = (("mean", width), ("log_std", width)) if isinstance(agent, SACConfig) else (("action", width),)
    return build(interface.observations, MLP(num_inputs=0, hidden=agent.hidden, heads=heads), agent.torso)


def num_published(config: TrainConfig, interface: Interface) -> int:
    """Length of what is published: the acting network's weights, then what observations are normalised by."""
    return length_of(policy_network(config, interface)) + Normalization.of(config, interface).num_parameters


def first_published(config: TrainConfig, interface: Interface, rng: np.random.Generator) -> NDArray[np.float32]:
    """The vector before learning."""
    weights = initial_vector(policy_network(config, interface), rng)
    return np.concatenate([weights, Normalization.of(config, interface).nothing_known])


def make_policy(config: TrainConfig, interface: Interface, vector: NDArray[np.float32]) -> Policy:
    """The policy of an algorithm on a vector that somebody else may overwrite; it takes observations as stored.

    Args:
        config: The run's.
        interface: What the environment looks like.
        vector: float32[num_published]; the policy looks at it, it does not copy it.
    """
    network, normalization = acting(policy_network(config, interface)), Normalization.of(config, interface)
    weights, scales = np.split(vector, [length_of(network)])
    policy = _on_weights(config, interface, network, weights)
    return Normalized(policy, normalization, scales) if normalization.entries else policy


def _on_weights(config: TrainConfig, interface: Interface, network: Network, vector: NDArray[np.float32]) -> Policy:
    agent = config.agent
    if isinstance(agent, DQNConfig):
        return EpsilonGreedy(network, vector, agent)
    if isinstance(agent, PPOConfig):
        return Stochastic(network, vector, distribution_of(interface))
    warmup_steps = config.updates.warmup_steps
    if isinstance(agent, SACConfig):
        return SquashedGaussian(network, vector, warmup_steps)
    return Deterministic(network, vector, agent, warmup_steps)


def deterministic_action(network: Network, pieces: Pieces, observations: Any, xp: ModuleType) -> Any:
    """mu(s) = tanh(head), in -1..1: [..., num_actions]."""
    return xp.tanh(network.apply(pieces, observations, xp)["action"])


def gaussian(network: Network, pieces: Pieces, observations: Any, xp: ModuleType) -> tuple[Any, Any]:
    """Mean and log standard deviation before squashing by tanh: [..., num_actions] each."""
    outputs = network.apply(pieces, observations, xp)
    return outputs["mean"], xp.clip(outputs["log_std"], LOG_STD_MIN, LOG_STD_MAX)


class Normalized:
    """A policy that is shown normalised observations."""

    def __init__(self, policy: Policy, normalization: Normalization, parameters: NDArray[np.float32]) -> None:
        self._policy = policy
        self._normalization = normalization
        self._parameters = parameters

    def act(self, obs: Arrays) -> NDArray[Any]:
        """What the policy does on what it is shown."""
        return self._policy.act(self._normalization.observations(obs, self._parameters))

    def explore(
        self, obs: Arrays, step: int, rng: np.random.Generator, noise: NDArray[np.float32] | None = None
    ) -> NDArray[Any]:
        """Likewise."""
        return self._policy.explore(self._normalization.observations(obs, self._parameters), step, rng, noise)


class EpsilonGreedy:
    """DQN's policy: the action of largest Q, and a random one for a share epsilon of the steps.

    Noisy layers get new noise at every step while exploring, the same for the environments of the batch.
    """

    def __init__(self, network: Network, vector: NDArray[np.float32], config: DQNConfig) -> None:
        self._network = network
        self._pieces = unpack(network, vector)
        self._config = config

    def act(self, obs: Arrays) -> NDArray[np.int64]:
        """The action of largest Q, without noise; the first among equals."""
        return self._q_values(self._pieces, obs).argmax(-1)

    def explore(
        self, obs: Arrays, step: int, rng: np.random.Generator, noise: NDArray[np.float32] | None = None
    ) -> NDArray[np.int64]:
        """Epsilon-greedy, with epsilon falling over the run."""
        del noise
        pieces = self._pieces
        if isinstance(self._network, Noisy):
            of_layers = rng.standard_normal(self._network.num_noise, np.float32)
            pieces = self._network.perturbed(pieces, of_layers, np)
        q = self._q_values(pieces, obs)
        actions = q.argmax(-1)
        epsilon = self._config.epsilon_at(step)
        whether, which = rng.random((2, len(q))).tolist()  # few rows: a call on arrays costs more than the loop
        for lane, (explores, action) in enumerate(zip(whether, which, strict=True)):
            if explores < epsilon:
                actions[lane] = int(action * q.shape[-1])
        return actions

    def _q_values(self, pieces: Pieces, obs: Arrays) -> NDArray[np.float32]:
        return q_values(self._network, pieces, obs, self._config, np)


class Deterministic:
    """The policy of DDPG and TD3: mu(s), with Gaussian noise while learning."""

    def __init__(
        self, network: Network, vector: NDArray[np.float32], config: DDPGConfig | TD3Config, warmup_steps: int
    ) -> None:
        self._network = network
        self._pieces = unpack(network, vector)
        self._scale = np.float32(config.exploration_noise)
        self._warmup_steps = warmup_steps
        self._num_actions = dict(network.heads)["action"]

    def act(self, obs: Arrays) -> NDArray[np.float32]:
        """mu(s)."""
        return deterministic_action(self._network, self._pieces, obs, np)

    def explore(
        self, obs: Arrays, step: int, rng: np.random.Generator, noise: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Uniform during warm-up; then mu(s) plus noise, cut to -1..1."""
        shape = (num_rows(obs), self._num_actions)
        if step < self._warmup_steps:
            return _uniform(rng, shape)
        drawn = rng.standard_normal(shape, np.float32) if noise is None else noise
        noisy = np.asarray(self.act(obs) + self._scale * drawn, np.float32)
        return noisy.clip(-1.0, 1.0)


class SquashedGaussian:
    """SAC's policy: tanh of a Gaussian sample while learning, tanh of its mean otherwise."""

    def __init__(self, network: Network, vector: NDArray[np.float32], warmup_steps: int) -> None:
        self._network = network
        self._pieces = unpack(network, vector)
        self._warmup_steps = warmup_steps
        self._num_actions = dict(network.heads)["mean"]

    def act(self, obs: Arrays) -> NDArray[np.float32]:
        """Tanh of the mean."""
        mean, _ = gaussian(self._network, self._pieces, obs, np)
        return np.tanh(mean)

    def explore(
        self, obs: Arrays, step: int, rng: np.random.Generator, noise: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Uniform during warm-up; then a sample of the policy."""
        shape = (num_rows(obs), self._num_actions)
        if step < self._warmup_steps:
            return _uniform(rng, shape)
        mean, log_std = gaussian(self._network, self._pieces, obs, np)
        drawn = rng.standard_normal(shape, np.float32) if noise is None else noise
        return np.tanh(mean + np.exp(log_std) * drawn)


def _uniform(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float32]:
    drawn: NDArray[np.float32] = rng.random(shape, np.float32)
    return np.float32(2) * drawn - np.float32(1)
