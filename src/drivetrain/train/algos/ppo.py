"""Proximal policy optimisation with a clipped objective, for discrete and continuous actions.

    A_t by GAE(lambda), R_t = A_t + V_old(s_t)             over a rollout of the newest policy
    for some epochs, for minibatches of the rollout in random order:
        r   = pi(a_t | s_t) / pi_old(a_t | s_t)
        L   = -mean min(r A, clip(r, 1 - c, 1 + c) A) + c_v mean (V(s_t) - R_t)^2 - c_e mean H(pi(. | s_t))
        theta <- Adam(clip(grad L))

All of it is one compiled call per rollout. With a value_clip_range c_V the squared error is the larger one
of V and of V_old + clip(V - V_old, -c_V, c_V). With a target_kl the rest of the rollout's updates is left
out once mean (r - 1 - log r) has passed 1.5 times that.

Differences from the papers:
- Policy and value are networks of their own, but for the torso where it learns (convolutions, or the user's),
  under one Adam and one clipped gradient norm, advantages are normalised per minibatch, the weights start
  orthogonal, learning rate and clip range may fall linearly: as Stable-Baselines3 does, so that runs can be
  compared. (Its value clipping takes no maximum; ours is that of OpenAI's baselines.)
- Truncated episodes, and the last step of a rollout, bootstrap from the value of the true next
  observation; the paper's environments are never truncated.
- pi_old is worked out again by the learner from the weights that acted.
- Gaussian actions are in -1..1, the environment's bounds are put back where it is stepped, and a sample
  beyond them is cut there and only there. Stable-Baselines3 has them in the environment's units.

References: Schulman et al. 2017, arXiv:1707.06347; Schulman et al. 2016, arXiv:1506.02438; Andrychowicz et
al. 2021, arXiv:2006.05990.
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.train.algos.advantages import Ends, gae, next_values
from drivetrain.train.config import PPOConfig, Precision, TrainConfig
from drivetrain.train.experience.rollout import Rollout
from drivetrain.train.interface import Interface
from drivetrain.train.learner import parts
from drivetrain.train.learner.on_policy.algorithm import OnPolicyAlgorithm
from drivetrain.train.learner.optimizers import optimizer_of
from drivetrain.train.learner.sharing import ONE_LEARNER, Learners
from drivetrain.train.learner.states import owned
from drivetrain.train.learner.updates import Metrics, Seldom
from drivetrain.train.networks import TORSO, Network, Pieces, Torso, above_torso, for_updates, learned_torso, within
from drivetrain.train.networks.joined import packed
from drivetrain.train.policies.distributions import Distribution, distribution_of
from drivetrain.train.policies.stochastic import stochastic_network, value_network

_KL_SLACK = 1.5  # of target_kl, as Stable-Baselines3 has it


class Params(NamedTuple):
    """Parameters of both networks."""

    policy: Pieces
    """Of the policy, and of the torso that both look through."""
    value: Pieces
    """Of the value network."""


class State(NamedTuple):
    """All that learning changes."""

    params: Params
    """Both networks."""
    optimizer: Any
    """Adam's moments."""
    key: jax.Array
    """Of the random stream; the rollout after k updates is shuffled by `fold_in(key, k)`."""
    num_updates: jax.Array
    """int32, updates so far, those left out for target_kl among them."""


class Networks(NamedTuple):
    """The shapes of the networks."""

    policy: Network
    """Observation to distribution, as actors have it."""
    value: Network
    """Observation to value; where a torso is shared, its features to value."""
    distribution: Distribution
    """What the policy's outputs mean."""
    torso: Torso | None
    """That of the policy, where it is shared; None: each looks by itself."""


class Steps(NamedTuple):
    """Steps of a rollout as the loss takes them: [B, ...] each."""

    obs: Any
    action: Any
    log_prob: Any
    """Of the action, by the policy that took it."""
    value: Any
    """V_old."""
    advantage: Any
    """Before normalisation."""


class Schedule(NamedTuple):
    """What changes over the run, float32 each."""

    learning_rate: Any
    clip_range: Any


def make(config: TrainConfig, interface: Interface) -> OnPolicyAlgorithm:
    """PPO for a run."""
    assert isinstance(config.agent, PPOConfig)
    agent = config.agent
    networks = networks_of(agent, interface, config.run.precision)

    def learn_at(state: State, rollout: Rollout, progress: Any, learners: Learners) -> tuple[State, Metrics]:
        schedule = Schedule(agent.learning_rate_at(progress), agent.clip_range_at(progress))
        return learn(state, rollout, schedule, networks, agent, learners)

    return OnPolicyAlgorithm(
        init=lambda rng: init(networks, agent, rng),
        learn=learn_at,
        policy=lambda state: packed(networks.policy, state.params.policy),
    )


def networks_of(agent: PPOConfig, interface: Interface, precision: Precision = "float32") -> Networks:
    """The networks for what is observed, as a learner computes them."""
    policy = for_updates(stochastic_network(agent, interface), precision)
    value = for_updates(value_network(agent, interface), precision)
    torso = learned_torso(policy) if agent.share_torso else None
    return Networks(policy, value if torso is None else above_torso(value), distribution_of(interface), torso)


def init(networks: Networks, config: PPOConfig, rng: np.random.Generator) -> State:
    """The state before the first update."""
    pieces = Params(networks.policy.initial(rng), networks.value.initial(rng))
    params = owned(pieces)
    key = jax.random.key_data(jax.random.key(int(rng.integers(2**31))))
    return State(params, optimizer_of(config, config.max_gradient_norm).init(params), key, jnp.int32(0))


def outputs_and_value(params: Params, obs: Any, networks: Networks) -> tuple[Pieces, jax.Array]:
    """What the policy says of observations, and V(s): [B]. In compiled code, what is not asked for costs nothing."""
    policy = networks.policy
    if networks.torso is not None:
        obs, policy = networks.torso.features(within(TORSO, params.policy), obs, jnp), above_torso(policy)
    return policy.apply(params.policy, obs, jnp), networks.value.apply(params.value, obs, jnp)["value"][..., 0]


def prepare(
    params: Params, rollout: Rollout, networks: Networks, config: PPOConfig, learners: Learners = ONE_LEARNER
) -> Steps:
    """Values, advantages and log probabilities of a rollout by the weights that acted: [T * N, ...]."""
    obs, last_obs, action = flat(rollout.obs), flat(rollout.last_obs), flat(rollout.action)
    shape = rollout.reward.shape

    def value_of(obs: Any) -> jax.Array:
        return outputs_and_value(params, obs, networks)[1]

    def value_and_log_prob(rows: Any) -> tuple[jax.Array, jax.Array]:
        outputs, value = outputs_and_value(params, rows[0], networks)
        return value, networks.distribution.log_prob(outputs, rows[1], jnp)

    def all_last() -> jax.Array:
        return learners.gathered(parts.mapped(value_of, learners.own(last_obs))).reshape(shape)

    def final_row_only() -> jax.Array:
        final = value_of(jax.tree.map(lambda x: x[-1], rollout.last_obs))
        return jnp.zeros(shape, values.dtype).at[-1].set(final)

    values, log_prob = learners.gathered(parts.mapped(value_and_log_prob, learners.own((obs, action))))
    values, ends = values.reshape(shape), Ends(rollout.terminated, rollout.truncated)
    last_values = jax.lax.cond(rollout.truncated[:-1].any(), all_last, final_row_only)
    following = next_values(values, last_values, ends)
    advantages = gae(rollout.reward, values, following, ends, config.gamma, config.gae_lambda)
    return Steps(obs, action, log_prob, values.ravel(), advantages.ravel())


def flat(tree: Any) -> Any:
    """Time and environments as one axis: [T, N, ...] to [T * N, ...]."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def normalized(advantage: Any, config: PPOConfig) -> Any:
    """The advantages of a whole minibatch as the loss takes them."""
    if not config.normalize_advantages:
        return advantage
    return (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)


def loss(
    params: Params, rows: tuple[Steps, Any], clip_range: Any, networks: Networks, config: PPOConfig
) -> tuple[jax.Array, Metrics]:
    """The loss of some rows of a minibatch, with their `normalized` advantages, and what to tell of it: means."""
    steps, advantage = rows
    outputs, value = outputs_and_value(params, steps.obs, networks)
    log_ratio = networks.distribution.log_prob(outputs, steps.action, jnp) - steps.log_prob
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - clip_range, 1 + clip_range)
    policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()

    target = steps.advantage + steps.value
    error = jnp.square(value - target)
    if config.value_clip_range is not None:
        move = jnp.clip(value - steps.value, -config.value_clip_range, config.value_clip_range)
        error = jnp.maximum(error, jnp.square(steps.value + move - target))
    value_loss = error.mean()

    entropy = networks.distribution.entropy(outputs, jnp).mean()
    total = policy_loss + config.value_coefficient * value_loss - config.entropy_coefficient * entropy
    metrics = {
        "loss": total,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "approx_kl": (ratio - 1 - log_ratio).mean(),
        "clip_fraction": (jnp.abs(ratio - 1) > clip_range).mean(),
    }
    return total, metrics


class Progress(NamedTuple):
    """What an update changes."""

    params: Params
    optimizer: Any
    going: jax.Array
    """bool; False once target_kl has ended the rollout's updates."""


def update(
    progress: Progress,
    steps: Steps,
    schedule: Schedule,
    networks: Networks,
    config: PPOConfig,
    learners: Learners = ONE_LEARNER,
) -> tuple[Progress, Metrics]:
    """One update on one minibatch; "done" among the metrics is 0 where it was left out."""
    slopes_of = jax.grad(loss, has_aux=True)
    slopes, metrics = parts.mean(
        lambda rows: slopes_of(progress.params, rows, schedule.clip_range, networks, config),
        learners.own((steps, normalized(steps.advantage, config))),
    )
    gradients, metrics = learners.mean_gradients(slopes, metrics)
    optimizer = optimizer_of(config, config.max_gradient_norm, schedule.learning_rate)
    params, moments, norm = optimizer.step(gradients, progress.optimizer, progress.params)
    metrics |= {"gradient_norm": norm, "done": jnp.float32(1)}
    if config.target_kl is None:
        return Progress(params, moments, progress.going), metrics
    going = progress.going & (metrics["approx_kl"] <= _KL_SLACK * config.target_kl)
    old = (progress.params, progress.optimizer)
    params, moments = jax.tree.map(lambda new, old: jnp.where(going, new, old), (params, moments), old)
    return Progress(params, moments, going), {**metrics, "done": going.astype(jnp.float32)}


def learn(
    state: State,
    rollout: Rollout,
    schedule: Schedule,
    networks: Networks,
    config: PPOConfig,
    learners: Learners = ONE_LEARNER,
) -> tuple[State, Metrics]:
    """All updates of one rollout: the new state, and means of the metrics over the updates done. Pure."""
    steps = prepare(state.params, rollout, networks, config, learners)
    num_steps = len(steps.value)
    num_batches = num_steps // config.batch_size

    def one_batch(progress: Progress, chosen: jax.Array) -> tuple[Progress, Metrics]:
        batch = jax.tree.map(lambda x: jnp.asarray(x).at[chosen].get(mode="promise_in_bounds"), steps)
        return update(progress, batch, schedule, networks, config, learners)

    def one_epoch(progress: Progress, key: jax.Array) -> tuple[Progress, Metrics]:
        order = jax.random.permutation(key, num_steps).reshape(num_batches, config.batch_size)
        return jax.lax.scan(one_batch, progress, order)

    key = jax.random.wrap_key_data(state.key)  # its words alone may be forbidden (JAX_LEGACY_PRNG_KEY)
    keys = jax.random.split(jax.random.fold_in(key, state.num_updates), config.num_epochs)
    start = Progress(state.params, state.optimizer, jnp.bool_(True))
    progress, told = jax.lax.scan(one_epoch, start, keys)
    new = State(progress.params, progress.optimizer, state.key, state.num_updates + config.num_epochs * num_batches)
    return new, summary(told, steps, schedule, num_batches)


def summary(told: Metrics, steps: Steps, schedule: Schedule, num_batches: int) -> Metrics:
    """Metrics of a rollout: means over the updates done, and how well the values had foretold the returns."""
    done = told["done"]
    kept = {name: jnp.where(done > 0, values, 0) for name, values in told.items() if name != "done"}
    means = {name: values.sum() / done.sum() for name, values in kept.items()}
    spread = jnp.var(steps.advantage + steps.value)
    has_some = spread > 0
    return {
        **means,
        "explained_variance": Seldom(1 - jnp.var(steps.advantage) / jnp.where(has_some, spread, 1), has_some),
        "num_epochs": done.sum() / num_batches,
        "learning_rate": schedule.learning_rate,
    }
