"""Hindsight does what it is for: bits to flip until they are as wanted (Andrychowicz et al. 2017, section 3.1)."""

import numpy as np
import pytest

pytest.importorskip("optax", reason="needs the train extra")

import jax
import jax.numpy as jnp
import optax

from drivetrain.replay import Replay

NUM_BITS, UNITS, EPISODES = 10, 256, 1_200
PARTS = ("observation", "achieved_goal", "desired_goal")
OPTIMIZER = optax.adam(1e-3)


def reward_of(achieved, desired):
    return (achieved == desired).all(axis=-1) - 1.0


def is_reached(achieved, desired):
    return (achieved == desired).all(axis=-1)


def values(params, bits):
    first, second = params
    return jax.nn.relu(bits @ first[:-1] + first[-1]) @ second[:-1] + second[-1]


@jax.jit
def greedy(params, bits):
    return jnp.argmax(values(params, bits))


@jax.jit
def updated(params, target, state, bits, action, reward, discount, next_bits):
    aim = jnp.clip(reward + discount * values(target, next_bits).max(axis=-1), -50.0, 0.0)

    def loss(params):
        chosen = jnp.take_along_axis(values(params, bits), action[:, None], axis=1)[:, 0]
        return jnp.mean((chosen - aim) ** 2)

    changes, state = OPTIMIZER.update(jax.grad(loss)(params), state)
    params = optax.apply_updates(params, changes)
    return params, jax.tree.map(lambda new, old: 0.05 * new + 0.95 * old, params, target), state


def bits_of(obs):
    return np.concatenate([obs["observation"], obs["desired_goal"]], axis=-1)


def observed(bits, wanted):
    return dict(zip(PARTS, (bits[None], bits[None], wanted[None]), strict=True))


def share_of_success(*, in_hindsight):
    """Of the last 200 episodes."""
    rng = np.random.default_rng(0)
    spec = {"obs": dict.fromkeys(PARTS, ((NUM_BITS,), "float32")), "action": ((), "int64")}
    replay = Replay(100_000, spec, prioritized=False, gamma=0.98)
    writer = replay.hindsight_writer(reward=reward_of, terminated=is_reached) if in_hindsight else replay.writer()
    keys = jax.random.split(jax.random.key(0))
    first = jax.random.normal(keys[0], (2 * NUM_BITS + 1, UNITS)) / np.sqrt(NUM_BITS)
    params = target = (first, 0.05 * jax.random.normal(keys[1], (UNITS + 1, NUM_BITS)))
    state, successes = OPTIMIZER.init(params), []
    for _ in range(EPISODES):
        bits, wanted = rng.integers(0, 2, (2, NUM_BITS)).astype(np.float32)
        for step in range(NUM_BITS):
            obs = observed(bits, wanted)
            explores = rng.random() < 0.15
            action = rng.integers(NUM_BITS) if explores else greedy(params, bits_of(obs)[0])
            bits = np.where(np.arange(NUM_BITS) == int(action), 1 - bits, bits).astype(np.float32)
            done = is_reached(bits, wanted)
            writer.add(
                obs=obs,
                action=np.array([action], np.int64),
                reward=reward_of(bits, wanted)[None],
                next_obs=observed(bits, wanted),
                terminated=np.array([done]),
                truncated=np.array([step == NUM_BITS - 1 and not done]),
            )
            if done:
                break
        successes.append(done)
        for _ in range(10 if len(replay) > 256 else 0):
            rows = replay.sample(128).data
            batch = bits_of(rows["obs"]), rows["action"], rows["reward"], rows["discount"], bits_of(rows["next_obs"])
            params, target, state = updated(params, target, state, *batch)
    return np.mean(successes[-200:])


@pytest.mark.slow  # a minute
def test_with_hindsight_a_goal_that_is_hardly_ever_reached_by_chance_is_learned_and_without_it_is_not():
    assert share_of_success(in_hindsight=True) > 0.7
    assert share_of_success(in_hindsight=False) < 0.2
