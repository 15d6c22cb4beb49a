"""The Q-network of DQN's family: Q(s, a) from its heads, as a number or as a distribution of returns.

policy_network's heads -> action_logits [..., A, N] -> softmax -> expectation over the atoms = Q [..., A]

With one atom the head is Q itself. Written once for NumPy (actors) and JAX (the learner).
"""

import functools
from types import ModuleType
from typing import Any

import numpy as np

from drivetrain.train.config import DQNConfig
from drivetrain.train.interface import Observations
from drivetrain.train.networks import MLP, Network, Noisy, Pieces, TorsoNetwork, build


def q_network(observations: Observations, num_actions: int, config: DQNConfig) -> Network:
    """The network of a run: its heads as wide as actions times atoms, its layers noisy where that is asked for."""
    heads = (("action", num_actions * config.num_atoms),)
    if config.dueling:
        heads = (*heads, ("value", config.num_atoms))
    network = build(observations, MLP(num_inputs=0, hidden=config.hidden, heads=heads), config.torso)
    if not config.noisy:
        return network
    mlp = network.mlp if isinstance(network, TorsoNetwork) else network
    assert isinstance(mlp, MLP)
    return Noisy(inner=network, layers=tuple(mlp.layers), sigma=config.noise_scale)


@functools.cache
def atoms(config: DQNConfig) -> np.ndarray:
    """The returns z_1..z_N that a distribution gives probabilities to, evenly spaced: float32[num_atoms], kept."""
    spaced = np.linspace(config.value_min, config.value_max, config.num_atoms, dtype=np.float32)
    spaced.flags.writeable = False
    return spaced


def action_logits(network: Network, pieces: Pieces, obs: Any, config: DQNConfig, xp: ModuleType) -> Any:
    """One number per action and atom: [..., num_actions, num_atoms].

    With a value head, value + advantage - mean advantage over the actions, for each atom (dueling; Wang
    et al. 2016, eq. 9; Hessel et al. 2018, section 3).
    """
    return _dueled(network.apply(pieces, obs, xp), config)


def _dueled(outputs: Pieces, config: DQNConfig) -> Any:
    advantage = outputs["action"].reshape(*outputs["action"].shape[:-1], -1, config.num_atoms)
    if "value" not in outputs:
        return advantage
    return outputs["value"][..., None, :] + advantage - advantage.mean(-2, keepdims=True)


def expected(logits: Any, config: DQNConfig, xp: ModuleType) -> Any:
    """Q of logits [..., num_atoms]: the expected return; of one atom the number itself."""
    if config.num_atoms == 1:
        return logits[..., 0]
    weights = xp.exp(logits - logits.max(-1, keepdims=True))
    return (weights * atoms(config)).sum(-1) / weights.sum(-1)


def q_values(network: Network, pieces: Pieces, obs: Any, config: DQNConfig, xp: ModuleType) -> Any:
    """Q(s, a) for every action: [..., num_actions]."""
    outputs = network.apply(pieces, obs, xp)
    if config.num_atoms == 1 and "value" not in outputs:
        return outputs["action"]  # as it is: an actor asks at every step
    return expected(_dueled(outputs, config), config, xp)
