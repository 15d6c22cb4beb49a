"""Layers of a policy, written for two tiles at once, act as they do for one tile and under XLA."""

import jax
import numpy as np
import pytest
from comparing import assert_same
from layered import EXTRAS, gated, weights

from drivetrain import sim
from drivetrain.sim.engines.native import engine, forms, layers
from drivetrain.sim.engines.native.dot import blocks
from drivetrain.sim.engines.native.emitter import Emitter


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


@pytest.mark.release
@pytest.mark.parametrize(("width", "num_envs", "num_threads"), [(8, 37, 1), (8, 13, 1), (4, 37, 3)])
def test_two_tiles_at_once_give_the_bits_of_tiles_alone(width, num_envs, num_threads, monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "lanes", lambda: width)
    monkeypatch.setattr(
        engine, "effort_for", lambda num_characters: ("-O0",)
    )  # the bits are the same, in half the time
    together = played(num_envs, num_threads)
    monkeypatch.setattr(forms, "pairs_pay", lambda block, shared: False)
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path))  # where no source is kept yet
    jax.tree.map(np.testing.assert_array_equal, together, played(num_envs))


@pytest.mark.release
@pytest.mark.parametrize("num_registers", [16, 32])
def test_as_many_sums_as_fit_into_registers_give_the_same_bits(num_registers, monkeypatch, tmp_path):
    for module in (engine, layers):
        monkeypatch.setattr(module, "num_registers", lambda: num_registers)
    monkeypatch.setattr(engine, "effort_for", lambda num_characters: ("-O0",))
    expected = played(37)
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path))
    monkeypatch.setattr(forms, "pairs_pay", lambda block, shared: False)
    jax.tree.map(np.testing.assert_array_equal, played(37), expected)
    (source,) = tmp_path.rglob("*.cpp")
    assert source.name.endswith(f".{num_registers}.cpp")


@pytest.mark.release
def test_layers_of_many_forms_act_as_under_xla():
    # Sums of some sixty terms of about one, in an order that XLA chooses by how many cores there are.
    atol = 64 * np.finfo(np.float32).eps / 2
    params, env = weights(), sim.make("CartPole-v1")
    options = {"policy": gated, "policy_params": params, "record": ("action", *EXTRAS)}
    oracle, tested = (sim.compile(env, 21, 1, each, **options) for each in ("xla", "native"))
    state = oracle.reset(seed=5)
    for step in range(8):
        expected, got = oracle(state, policy=params), tested(state, policy=params)
        assert_same(expected, got, f"step {step}: ", atol)
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
