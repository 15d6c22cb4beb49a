"""The policy in the kernel: exploring, on exactly the network that learns.

    vector (published) --Acting.parameters(step)--> weights, what observations are normalised by, epsilon
    parameters, observation, key --Acting.act--> the environment's action, {CHOICE: what is stored of it}

The same as `policies.Policy.explore`, but for one observation, and with chance from a JAX key.
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from drivetrain.train.actor.fused.layout import stored
from drivetrain.train.config import DQNConfig, TrainConfig
from drivetrain.train.environments.spaces import decoder
from drivetrain.train.interface import BoxActions, DiscreteActions, Interface
from drivetrain.train.networks import Noisy, Pieces, length_of, unpack
from drivetrain.train.normalization import Normalization
from drivetrain.train.policies.distributions import distribution_of
from drivetrain.train.policies.policy import policy_network
from drivetrain.train.policies.q_networks import q_values

CHOICE = "choice"
"""What is recorded of an action: the agent's, as the replay stores it."""
Parameters = dict[str, Any]
_Explore = Callable[[Pieces, Any, Any, jax.Array], jax.Array]


@dataclass(frozen=True, kw_only=True)
class Acting:
    """The policy of a kernel."""

    act: Callable[[Parameters, Any, jax.Array], tuple[jax.Array, dict[str, jax.Array]]]
    """(parameters, what one environment shows, key) -> (its action, {CHOICE: the agent's}). Pure, in JAX."""
    parameters: Callable[[int], Parameters]
    """What the kernel is given at a step of the run: views of the published vector, and epsilon."""


class Draws:
    """Standard random numbers of a JAX key, as NumPy's generators give them: each call draws others."""

    def __init__(self, key: jax.Array) -> None:
        self._key = key

    def standard_exponential(self, size: tuple[int, ...], dtype: Any) -> jax.Array:
        """Of mean 1."""
        return jax.random.exponential(self._next(), size, dtype)

    def standard_normal(self, size: tuple[int, ...], dtype: Any) -> jax.Array:
        """Of mean 0 and variance 1."""
        return jax.random.normal(self._next(), size, dtype)

    def _next(self) -> jax.Array:
        self._key, key = jax.random.split(self._key)
        return key


def acting(
    config: TrainConfig, interface: Interface, vector: NDArray[np.float32], action: Any, rng: np.random.Generator
) -> Acting:
    """The policy of a run's kernels on a vector that somebody else may overwrite between calls.

    Args:
        config: The run's; its algorithm is DQN or PPO.
        interface: What the environment looks like.
        vector: float32[num_published]; looked at, not copied.
        action: Shape and type of one of the environment's actions.
        rng: Of the noise of noisy layers, new in every call and the same in all its steps.
    """
    agent, network = config.agent, policy_network(config, interface)
    normalization = Normalization.of(config, interface)
    weights, scales = np.split(vector, [length_of(network)])
    pieces = unpack(network, weights)
    explore = _epsilon_greedy(config, interface) if isinstance(agent, DQNConfig) else _drawing(config, interface)
    if agent.torso != "auto":
        explore = _as_a_batch(explore)

    def act(parameters: Parameters, shown: Any, key: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        obs = stored(interface.observations, shown, (), jnp)
        seen = normalization.observations(obs, parameters["scales"], jnp) if normalization.entries else obs
        choice = explore(parameters["weights"], seen, parameters["epsilon"], key)
        return _for_environment(interface, choice, action), {CHOICE: choice}

    def parameters(step: int) -> Parameters:
        weights = pieces
        if isinstance(network, Noisy):
            weights = network.perturbed(pieces, rng.standard_normal(network.num_noise, np.float32), np)
        epsilon = agent.epsilon_at(step) if isinstance(agent, DQNConfig) else 0.0
        return {"weights": weights, "scales": scales, "epsilon": np.float32(epsilon)}

    return Acting(act=act, parameters=parameters)


def _epsilon_greedy(config: TrainConfig, interface: Interface) -> _Explore:
    agent, network = config.agent, policy_network(config, interface)
    assert isinstance(agent, DQNConfig)

    def explore(weights: Pieces, obs: Any, epsilon: Any, key: jax.Array) -> jax.Array:
        whether, which = jax.random.split(key)
        best = q_values(network, weights, obs, agent, jnp).argmax(-1)
        other = jax.random.randint(which, (), 0, interface.num_actions, best.dtype)
        return jnp.where(jax.random.uniform(whether) < epsilon, other, best)

    return explore


def _drawing(config: TrainConfig, interface: Interface) -> _Explore:
    network, distribution = policy_network(config, interface), distribution_of(interface)

    def explore(weights: Pieces, obs: Any, epsilon: Any, key: jax.Array) -> jax.Array:
        del epsilon
        return distribution.sample(network.apply(weights, obs, jnp), Draws(key), jnp)

    return explore


def _as_a_batch(explore: _Explore) -> _Explore:
    """The same for a torso of the user's own, which may expect a batch: of one."""

    def of_one(weights: Pieces, obs: Any, epsilon: Any, key: jax.Array) -> jax.Array:
        return explore(weights, jax.tree.map(lambda x: x[None], obs), epsilon, key)[0]

    return of_one


def _for_environment(interface: Interface, choice: jax.Array, action: Any) -> jax.Array:
    """The environment's action for the agent's."""
    actions = interface.actions
    if isinstance(actions, BoxActions):
        decoded = decoder(actions, jnp)(choice)
    else:  # the decoder gives Gymnasium's int64, which JAX has not
        decoded = choice + (actions.start if isinstance(actions, DiscreteActions) else jnp.array(actions.starts))
    return jnp.asarray(decoded, action.dtype).reshape(action.shape)
