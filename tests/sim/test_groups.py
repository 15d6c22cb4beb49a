"""Tiles that are stepped together give what tiles alone give, to the bit, and only steps that gain are written so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import EVERYTHING, random_actions

from drivetrain import sim
from drivetrain.sim.engines.native import engine
from drivetrain.sim.engines.native.groups import split_of
from drivetrain.sim.spaces import Discrete
from drivetrain.sim.trace import trace

NUM_ENVS, NUM_STEPS = 301, 40  # more tiles than a group has, the last one not full


class Chance:
    """Ends by chance, passes values of both sides of the branch on, and keeps a large state if asked to."""

    name = "Chance"
    default_params = None

    def __init__(self, size=2, draws=4):
        self.size, self.draws = size, draws

    def reset(self, key, params):
        x = jax.random.uniform(key, (self.draws,)).sum()
        return jnp.full(2, x), (jnp.full(self.size, x), jnp.int32(0), x > 2)

    def step(self, key, state, action, params):
        x, time, flag = state
        x = x * 0.9 + action * jax.random.uniform(key)
        ended = (x[0] > 2.2) | flag & (time > 3)
        obs = jnp.stack([x[-1], time.astype(jnp.float32)])
        return obs, (x, time + 1, x[0] > 2), x[0] + time, ended, time >= 20, {"flag": flag}

    def action_space(self, params):
        return Discrete(3)


def lowered(env, autoreset="same_step", record=EVERYTHING):
    return engine.lowered(trace(env, env.default_params, autoreset, record))[0]


def played(env, **options):
    """Two calls one after the other."""
    rollout = sim.compile(env, NUM_ENVS, NUM_STEPS, "native", record=EVERYTHING, **options)
    state, actions = rollout.reset(seed=2), random_actions(env, NUM_STEPS, NUM_ENVS)
    results = []
    for _ in range(2):
        state, trajectory = rollout(state, actions)
        results.append((state, trajectory))
    return results


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_groups_of_tiles_give_what_tiles_give(width, autoreset, monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "lanes", lambda: width)
    assert split_of(lowered(Chance(), autoreset)) is not None
    grouped = played(Chance(), autoreset=autoreset, num_threads=3)
    monkeypatch.setattr(engine, "split_of", lambda block: None)
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path))  # where no source is kept yet
    alone = played(Chance(), autoreset=autoreset)
    assert np.sum(grouped[0][1]["terminated"]) > NUM_ENVS
    jax.tree.map(np.testing.assert_array_equal, grouped, alone)


def test_steps_with_large_arrays_or_without_a_costly_branch_are_not_grouped():
    assert split_of(lowered(Chance(size=100))) is None
    assert split_of(lowered(Chance(), "disabled")) is None
    assert split_of(lowered(Chance(draws=0), "next_step", ())) is None


def test_what_needs_the_branch_comes_after_it_and_all_else_before():
    split = split_of(lowered(Chance()))
    late = set(split.branch.outputs)
    assert split.before
    for op in split.before:
        assert late.isdisjoint(op.inputs)
    for op in split.after:
        assert not late.isdisjoint(op.inputs)
        late.update(op.outputs)
