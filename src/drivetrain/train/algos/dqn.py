"""Deep Q-learning: double, n-step and prioritized by default; dueling, distributional and noisy as options.

    y  = R_n + gamma^n Q_target(s_n, argmax_a Q(s_n, a))
    L  = mean_i w_i huber(Q(s_i, a_i) - y_i)
or, with atoms (C51; Z the distribution of returns, Q its mean)
    y  = projection on the atoms of R_n + gamma^n Z_target(s_n, argmax_a Q(s_n, a))
    L  = mean_i w_i cross entropy(y_i, Z(s_i, a_i));   its excess over the entropy of y is the priority
    theta <- Adam(clip(grad L));   every K updates: target <- target + tau (theta - target)

Differences from the papers:
- Adam and a clipped global gradient norm, where Mnih et al. 2015 use RMSProp and clip TD errors
  (Huber is the latter).
- Priorities of the U batches of one call are all drawn before the call's updates are known.
- A truncated episode bootstraps from its last observation; only termination ends the return.
- Actions before the first update follow the same schedule of epsilon, where Mnih et al. draw all of them at random.
- tau < 1 with K = 1 is the soft target of DDPG rather than DQN's copy.
- Noisy layers: an update draws a noise for each of online, target and choosing network, the same for
  all rows; an actor one per step, the same for its environments. The dense layers behind the torso are
  noisy; of images the torso is convolutions and a layer of 512 units without noise, where Hessel et al. have
  noise in such a layer of each stream. All together are Rainbow (`--preset rainbow`).

References: Mnih et al. 2015 (Nature 518); van Hasselt et al. 2016, arXiv:1509.06461; Schaul et al.
2016, arXiv:1511.05952; Wang et al. 2016, arXiv:1511.06581; Bellemare et al. 2017, arXiv:1707.06887;
Fortunato et al. 2018, arXiv:1706.10295; Hessel et al. 2018, arXiv:1710.02298.
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.train.algos.losses import (
    bootstrapped,
    cross_entropy,
    entropy,
    huber,
    moved,
    projected,
    select,
    weighted_mean,
)
from drivetrain.train.config import DQNConfig, TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.learner.noise import key_of_update, standard_normal
from drivetrain.train.learner.optimizers import Optimizer, optimizer_of
from drivetrain.train.learner.sharing import ONE_LEARNER, Learners
from drivetrain.train.learner.states import owned
from drivetrain.train.learner.updates import Algorithm, Batch, Metrics, noise_key
from drivetrain.train.networks import Network, Noisy, Pieces, for_updates
from drivetrain.train.networks.joined import packed
from drivetrain.train.policies.policy import policy_network
from drivetrain.train.policies.q_networks import action_logits, atoms, expected, q_values


class State(NamedTuple):
    """All that learning changes."""

    params: Pieces
    """The online network."""
    target: Pieces
    """The target network."""
    optimizer: Any
    """Adam's moments."""
    key: jax.Array
    """Of the noise of noisy layers; update k draws from `fold_in(key, k)`."""
    num_updates: jax.Array
    """int32, updates so far."""


class Noises(NamedTuple):
    """Noise of noisy layers for one update, float32[num_noise] each (Fortunato et al. 2018, section 3.1)."""

    online: Any
    """Of the network that learns."""
    target: Any
    """Of the target network."""
    chooser: Any
    """Of the online network that chooses the next action."""


def make(config: TrainConfig, interface: Interface) -> Algorithm:
    """DQN for a run."""
    assert isinstance(config.agent, DQNConfig)
    network, agent = for_updates(policy_network(config, interface), config.run.precision), config.agent

    def draw_and_update(state: State, batch: Batch, learners: Learners) -> tuple[State, jax.Array, Metrics]:
        return update(state, batch, network, agent, learners, draw(state, network))

    return Algorithm(
        init=lambda rng: init(network.initial(rng), agent, noise_key(rng)),
        update=draw_and_update,
        policy=lambda state: packed(network, state.params),
    )


def draw(state: State, network: Network) -> Noises | None:
    """The noise of the next update, the same for every learner; None where no layer is noisy."""
    if not isinstance(network, Noisy):
        return None
    return Noises(*standard_normal(key_of_update(state.key, state.num_updates), (3, network.num_noise)))


def optimizer(config: DQNConfig) -> Optimizer:
    """On the clipped gradient."""
    return optimizer_of(config, config.max_gradient_norm)


def init(pieces: Pieces, config: DQNConfig, key: Any = None) -> State:
    """The state before the first update, with online and target network alike."""
    params, target = (owned(pieces) for _ in range(2))
    key = noise_key(np.random.default_rng(0)) if key is None else key
    return State(params, target, optimizer(config).init(params), key, jnp.int32(0))


def loss(
    online: Pieces, target: Pieces, batch: Batch, network: Network, config: DQNConfig, noises: Noises | None = None
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The loss of one batch: (loss, (TD errors or, with atoms, their like [B], chosen Q [B]))."""
    learned, chooser = online, online
    if noises is not None:
        assert isinstance(network, Noisy)
        learned = network.perturbed(online, noises.online, jnp)
        chooser = network.perturbed(online, noises.chooser, jnp)
        target = network.perturbed(target, noises.target, jnp)
    logits = select(action_logits(network, learned, batch.obs, config, jnp), batch.action)
    next_logits = action_logits(network, target, batch.next_obs, config, jnp)
    next_q = q_values(network, chooser if config.double else target, batch.next_obs, config, jnp)
    next_logits = select(next_logits, next_q.argmax(-1))
    q = expected(logits, config, jnp)
    if config.num_atoms == 1:
        errors = q - bootstrapped(batch.reward, batch.discount, expected(next_logits, config, jnp))
        return weighted_mean(huber(errors, config.huber_delta), batch.weights), (errors, q)
    y = projected(jax.nn.softmax(next_logits), batch.reward, batch.discount, atoms(config))
    losses = cross_entropy(y, logits)
    return weighted_mean(losses, batch.weights), (losses - entropy(y), q)


def update(
    state: State,
    batch: Batch,
    network: Network,
    config: DQNConfig,
    learners: Learners = ONE_LEARNER,
    noises: Noises | None = None,
) -> tuple[State, jax.Array, Metrics]:
    """One update on one batch: the new state, |TD error| [B], metrics. Pure."""
    graded = jax.value_and_grad(loss, has_aux=True)
    (value, (td_errors, q)), slopes = graded(state.params, state.target, batch, network, config, noises)
    gradients, _ = learners.mean_gradients(slopes)
    params, moments, norm = optimizer(config).step(gradients, state.optimizer, state.params)
    num_updates = state.num_updates + 1
    target = jax.lax.cond(
        num_updates % config.target_interval == 0,
        lambda: moved(state.target, params, config.target_tau),
        lambda: state.target,
    )
    metrics = {"loss": value, "q": q.mean(), "gradient_norm": norm}
    return State(params, target, moments, state.key, num_updates), jnp.abs(td_errors), metrics
