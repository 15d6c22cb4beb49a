"""PPO in the manner of purejaxrl: environments, policy and updates in one jitted program, on gymnax's own environment.

Settings: those of `ppo_settings.py`; advantages are normalised by minibatch. A scan over steps of `vmap(env.step)` with
the policy, one over advantages, one over epochs and minibatches; around them a scan over four rollouts, with the
state donated, so that calls from Python cost next to nothing. Nothing is logged.

Source of the form: purejaxrl's ppo.py (Lu et al. 2022, "Discovered policy optimisation").
"""

# JAX is typed in part, gymnax ships no stubs.
# pyright: reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from functools import partial
from typing import Any, NamedTuple

import gymnax
import jax
import jax.numpy as jnp
import optax

from drivetrain.bench.serving import NotOffered
from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.peers.ppo_settings import NUM_MINIBATCHES, settings_for
from drivetrain.bench.sim.scene import Scene
from drivetrain.bench.train.settings import PpoSettings

ROLLOUTS_PER_CALL = 4
Tree = Any


class Step(NamedTuple):
    """What a step leaves for the updates, [num_envs, ...] each."""

    obs: Any
    action: Any
    log_prob: Any
    value: Any
    reward: Any
    done: Any


def network(key: jax.Array, num_inputs: int, hidden: tuple[int, ...], num_outputs: int, gain: float) -> Tree:
    """Weights and biases of a perceptron, orthogonal."""
    widths = (num_inputs, *hidden, num_outputs)
    gains = (*(2**0.5 for _ in hidden), gain)
    keys = jax.random.split(key, len(gains))
    return [
        (jax.nn.initializers.orthogonal(gain)(k, (a, b), jnp.float32), jnp.zeros(b))
        for k, a, b, gain in zip(keys, widths[:-1], widths[1:], gains, strict=True)
    ]


def outputs(layers: Tree, x: jax.Array) -> jax.Array:
    """The perceptron's, with tanh between layers."""
    for weight, bias in layers[:-1]:
        x = jnp.tanh(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def log_probs(params: Tree, obs: jax.Array) -> jax.Array:
    """Of all actions."""
    return jax.nn.log_softmax(outputs(params["policy"], obs))


def value(params: Tree, obs: jax.Array) -> jax.Array:
    """Of observations."""
    return outputs(params["value"], obs)[..., 0]


def chosen(table: jax.Array, action: jax.Array) -> jax.Array:
    """The entries of actions."""
    return jnp.take_along_axis(table, action[..., None], -1)[..., 0]


def advantages(steps: Step, last: jax.Array, settings: PpoSettings) -> jax.Array:
    """Generalised advantage estimates, [num_steps, num_envs]."""

    def back(carry: Any, step: Step) -> Any:
        advantage, following = carry
        alive = settings.gamma * (1.0 - step.done)
        advantage = step.reward + alive * following - step.value + alive * settings.gae_lambda * advantage
        return (advantage, step.value), advantage

    return jax.lax.scan(back, (jnp.zeros_like(last), last), steps, reverse=True)[1]


def loss(params: Tree, steps: Step, advantage: jax.Array, target: jax.Array, settings: PpoSettings) -> jax.Array:
    """The clipped objective, the values' error and the entropy of a minibatch."""
    table = log_probs(params, steps.obs)
    ratio = jnp.exp(chosen(table, steps.action) - steps.log_prob)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1 - settings.clip_range, 1 + settings.clip_range)
    policy = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
    error = jnp.square(value(params, steps.obs) - target).mean()  # as the settings say: not halved
    entropy = -(jnp.exp(table) * table).sum(-1).mean()
    return policy + settings.vf_coef * error - settings.ent_coef * entropy


class Program:
    """The whole of it for one environment of gymnax."""

    def __init__(self, scene: Scene) -> None:
        """Nothing is compiled yet."""
        self.env, self.env_params = gymnax.make(scene.env)
        self.settings = settings_for(scene.num_envs)
        clipped = optax.clip_by_global_norm(self.settings.max_grad_norm)
        self.optimizer = optax.chain(clipped, optax.adam(self.settings.learning_rate, eps=1e-5))
        self.step = jax.vmap(self.env.step, in_axes=(0, 0, 0, None))

    def begin(self, key: jax.Array) -> Tree:
        """Parameters, moments, environments, observations and a key."""
        at, policy, critic, rest = jax.random.split(key, 4)
        starts = jax.random.split(at, self.settings.num_envs)
        obs, state = jax.vmap(self.env.reset, in_axes=(0, None))(starts, self.env_params)
        make = partial(network, num_inputs=obs.shape[-1], hidden=self.settings.hidden)
        count = int(self.env.action_space(self.env_params).n)
        params = {
            "policy": make(policy, num_outputs=count, gain=0.01),
            "value": make(critic, num_outputs=1, gain=1.0),
        }
        return params, self.optimizer.init(params), state, obs, rest

    def act(self, params: Tree, carry: Tree, _: Any) -> Any:
        """One step of all environments."""
        state, obs, key = carry
        key, choosing, stepping = jax.random.split(key, 3)
        table = log_probs(params, obs)
        action = jax.random.categorical(choosing, table)
        keys = jax.random.split(stepping, self.settings.num_envs)
        following, state, reward, terminated, truncated, _ = self.step(keys, state, action, self.env_params)
        done = (terminated | truncated).astype(jnp.float32)
        step = Step(obs, action, chosen(table, action), value(params, obs), reward, done)
        return (state, following, key), step

    def update(self, carry: Tree, batch: Tree) -> Any:
        """One minibatch."""
        params, moments = carry
        slopes = jax.grad(loss)(params, *batch, self.settings)
        changes, moments = self.optimizer.update(slopes, moments, params)
        return (optax.apply_updates(params, changes), moments), None

    def iterate(self, carry: Tree, _: Any) -> Any:
        """One rollout and its updates."""
        params, moments, state, obs, key = carry
        steps: Step
        (state, obs, key), steps = jax.lax.scan(
            partial(self.act, params), (state, obs, key), None, self.settings.n_steps
        )
        advantage = advantages(steps, value(params, obs), self.settings)
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (steps, advantage, advantage + steps.value))

        def epoch(learned: Tree, key: jax.Array) -> Any:
            order = jax.random.permutation(key, self.settings.steps_per_rollout).reshape(NUM_MINIBATCHES, -1)
            return jax.lax.scan(self.update, learned, jax.tree.map(lambda x: x[order], rows))

        key, shuffling = jax.random.split(key)
        keys = jax.random.split(shuffling, self.settings.n_epochs)
        (params, moments), _ = jax.lax.scan(epoch, (params, moments), keys)
        return (params, moments, state, obs, key), steps.done.sum()


def simulator(scene: Scene) -> Simulator:
    """Some rollouts and their updates per call."""
    if scene.env not in gymnax.registered_envs:
        raise NotOffered("gymnax has no such environment")
    program = Program(scene)
    run_all = jax.jit(lambda carry: jax.lax.scan(program.iterate, carry, None, ROLLOUTS_PER_CALL), donate_argnums=0)
    carry = jax.jit(program.begin)(jax.random.key(0))

    def run() -> int:
        nonlocal carry
        carry, ended = run_all(carry)
        jax.block_until_ready((carry, ended))
        return ROLLOUTS_PER_CALL * program.settings.steps_per_rollout

    return run


if __name__ == "__main__":
    serve_simulator(simulator)
