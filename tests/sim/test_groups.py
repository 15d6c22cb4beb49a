"""Tiles that are stepped together give what tiles alone give, to the bit, and only steps that gain are written so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chance import Chance, Jumping
from comparing import EVERYTHING, random_actions

from drivetrain import sim
from drivetrain.sim.engines.native import engine, forms
from drivetrain.sim.engines.native.layout import step_inputs
from drivetrain.sim.engines.native.paying import groups_pay
from drivetrain.sim.engines.native.split import split_of
from drivetrain.sim.ir.passes.sinking import inputs_of
from drivetrain.sim.trace import trace

NUM_ENVS, NUM_STEPS = 301, 40  # more tiles than a group has, the last one not full


def lowered(env, autoreset="same_step", record=EVERYTHING):
    return engine.lowered(trace(env, env.default_params, autoreset, record))


def split(*which, **options):
    block, layout = lowered(*which, **options)
    return split_of(block, step_inputs(block, layout).kept)


def played(env, record, **options):
    """Two calls one after the other."""
    rollout = sim.compile(env, NUM_ENVS, NUM_STEPS, "native", record=record, **options)
    state, actions = rollout.reset(seed=2), random_actions(env, NUM_STEPS, NUM_ENVS)
    results = []
    for _ in range(2):
        state, trajectory = rollout(state, actions)
        results.append((state, trajectory))
    return results


@pytest.mark.release
@pytest.mark.parametrize("record", [EVERYTHING, ()], ids=["recorded", "nothing"])
@pytest.mark.parametrize(("env", "width", "autoreset"), [(Chance(), 4, "same_step"), (Jumping(), 8, "next_step")])
def test_groups_of_tiles_give_what_tiles_give(env, width, autoreset, record, monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "lanes", lambda: width)
    assert split(env, autoreset, record) is not None
    grouped = played(env, record, autoreset=autoreset, num_threads=3)
    monkeypatch.setattr(forms, "split_of", lambda *which: None)
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path))  # where no source is kept yet
    alone = played(env, record, autoreset=autoreset)
    assert not record or np.sum(grouped[0][1]["terminated"]) > NUM_ENVS
    jax.tree.map(np.testing.assert_array_equal, grouped, alone)


def test_steps_with_large_arrays_or_without_a_costly_branch_are_not_grouped():
    assert split(Chance(size=100)) is None
    assert split(Chance(), "disabled") is None
    assert split(Chance(draws=0), "next_step", ()) is None


def is_grouped(env, record=EVERYTHING):
    block, layout = lowered(env, record=record)
    given = step_inputs(block, layout)
    return groups_pay(block, given, split_of(block, given.kept))


class Limited(Chance):
    """Ends after some steps, and all that began together do; `turns` sines lie between a state and the next one."""

    def __init__(self, turns=0, by_chance=False):
        super().__init__()
        self.turns, self.by_chance = turns, by_chance

    def step(self, key, state, action, params):
        x, time, *rest = state
        for _ in range(self.turns):
            x = jnp.sin(x)
        ended = x[0] > 1 if self.by_chance else False
        return x, (x + action, time + 1, *rest), x[0], ended, time >= 20, {}


def test_steps_whose_tiles_restart_as_a_whole_are_grouped_only_if_one_tile_keeps_the_processor_waiting():
    assert [is_grouped(Limited(turns)) for turns in (0, 4)] == [False, True]
    assert is_grouped(Limited(by_chance=True))
    assert is_grouped(Chance())


def test_steps_are_grouped_for_work_that_only_the_last_step_of_a_call_needs():
    class Drawing(Limited):
        """Draws what no step reads."""

        def step(self, key, state, action, params):
            obs, (*after, _, _), *rest = super().step(key, state, action, params)
            shown = jax.random.uniform(key)
            return obs, (*after, shown, shown), *rest

    assert [is_grouped(env) for env in (Limited(), Drawing())] == [False, True]


def test_what_needs_the_branch_comes_after_it_and_all_else_before():
    found = split(Jumping())
    late = set(found.branch.outputs)
    assert found.before.all
    assert {"if", "mul"} <= {op.name for op in found.after}
    for op in found.before.all:
        assert late.isdisjoint(inputs_of(op))
    for op in found.after:
        assert not late.isdisjoint(inputs_of(op))
        late.update(op.outputs)


@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_what_only_the_last_step_needs_is_apart_and_nothing_else_needs_it(autoreset):
    found = split(Chance(), autoreset)
    parts = (found.before, found.taken)
    last = {value for part in parts for op in part.last for value in op.outputs}
    every = [*found.after, *(op for part in parts for op in part.every)]
    assert all("threefry" in {op.name for op in part.last} for part in parts)
    assert all(last.isdisjoint(inputs_of(op)) for op in every)


def test_state_that_a_step_reads_or_a_record_shows_is_needed_in_every_step():
    class Reading(Chance):
        def step(self, key, state, action, params):
            obs, after, *rest = super().step(key, state, action, params)
            shown = after[3] + state[3] * 0.5
            return obs, (*after[:3], shown, shown), *rest

    class Shown(Chance):
        def step(self, key, state, action, params):
            obs, after, *rest, info = super().step(key, state, action, params)
            return obs, after, *rest, {**info, "shown": after[3]}

    for env in (Reading(), Shown()):
        assert "threefry" not in {op.name for op in split(env).before.last}
    assert "threefry" not in {op.name for op in split(Reading()).taken.last}
