"""Layers of a policy, written for two tiles at once, act as they do for one tile and under XLA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import assert_same

from drivetrain import sim
from drivetrain.sim.engines.native import engine
from drivetrain.sim.engines.native.dot import blocks
from drivetrain.sim.engines.native.emitter import Emitter

EXTRAS = ("five", "four", "plain", "total")


def gated(params, obs, key):
    """Two products in one sum, one that two others and scalars read, one without an activation, and heads."""
    first = jnp.tanh(obs @ params["in"] + params["bias"])
    gate = jax.nn.sigmoid(first @ params["gate"] + obs @ params["skip"])
    plain = (first * gate) @ params["plain"]
    deep = plain
    for k in range(3):
        deep = jnp.maximum(deep @ params["deep"][k] + plain, 0.1 * plain)
    five, four = deep @ params["five"], deep @ params["four"]
    action = (five[0] > four[1]).astype(jnp.int32)
    return action, {"five": five, "four": four, "plain": plain, "total": jnp.sum(deep)}


def weights():
    """Of `gated`: layers of 24 and 17."""
    rng = np.random.default_rng(3)
    shapes = {"in": (4, 24), "bias": (24,), "gate": (24, 24), "skip": (4, 24), "plain": (24, 17), "deep": (3, 17, 17),
              "five": (17, 5), "four": (17, 4)}  # fmt: skip
    return {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}


def played(num_envs, num_threads=1):
    """Two calls one after the other."""
    params = weights()
    record = ("obs", "action", "terminated", *EXTRAS)
    rollout = sim.compile(
        sim.make("CartPole-v1"), num_envs, 9, "native", policy=gated, policy_params=params, record=record,
        num_threads=num_threads,
    )  # fmt: skip
    state, first = rollout(rollout.reset(seed=2), policy=params)
    return first, rollout(state, policy=params)


@pytest.mark.parametrize(("width", "num_envs", "num_threads"), [(8, 37, 1), (8, 16, 1), (8, 3, 1), (4, 37, 3)])
def test_two_tiles_at_once_give_the_bits_of_tiles_alone(width, num_envs, num_threads, monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "lanes", lambda: width)
    together = played(num_envs, num_threads)
    monkeypatch.setattr(engine, "shares_weights", lambda block, shared: False)
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path))  # where no source is kept yet
    jax.tree.map(np.testing.assert_array_equal, together, played(num_envs))


def test_layers_of_many_forms_act_as_under_xla():
    params, env = weights(), sim.make("CartPole-v1")
    options = {"policy": gated, "policy_params": params, "record": ("action", *EXTRAS)}
    oracle, tested = (sim.compile(env, 21, 1, each, **options) for each in ("xla", "native"))
    state = oracle.reset(seed=5)
    for step in range(8):
        expected, got = oracle(state, policy=params), tested(state, policy=params)
        assert_same(expected, got, f"step {step}: ")
        state = expected[0]


@pytest.mark.parametrize("most", [1, 6, 8])
def test_blocks_of_columns_cover_each_column_once_and_are_nearly_equal(most):
    for num_columns in (1, 2, 5, 6, 7, 17, 32, 64):
        at = Emitter({})
        sizes, covered = [], []
        for first, count in blocks(at, num_columns, most):
            begin, end = starts(at.lines[-1])
            for start in range(begin, end, count) if first.terms else [first.start]:
                sizes.append(count)
                covered += range(start, start + count)
        assert covered == list(range(num_columns))
        assert max(sizes) <= most
        assert max(sizes) - min(sizes) <= 1


def starts(line):
    """Where a loop begins and ends; anything where the line opens none."""
    words = line.replace(";", "").split()
    return (int(words[words.index("=") + 1]), int(words[words.index("<") + 1])) if "for" in line else (0, 0)
