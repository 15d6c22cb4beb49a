"""Every engine takes the same steps as XLA, whatever the width, the threads and the way episodes are restarted."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest
from comparing import EVERYTHING, assert_engine_equals_xla, assert_same, random_actions

from drivetrain import sim
from drivetrain.sim.engines.native import engine as native
from drivetrain.sim.ir.passes import folding


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_cartpole_equals_xla_for_300_steps_with_resets(engine):
    assert assert_engine_equals_xla(sim.make("CartPole-v1"), engine, num_envs=21, num_steps=300) > 100


@pytest.mark.whole
@pytest.mark.parametrize("autoreset", ["next_step", "disabled"])
@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_other_ways_to_restart_equal_xla(engine, autoreset):
    ended = assert_engine_equals_xla(sim.make("CartPole-v1"), engine, num_envs=5, num_steps=60, autoreset=autoreset)
    assert ended > 5


@pytest.mark.whole
def test_many_steps_in_one_call_equal_many_calls():
    env = sim.make("CartPole-v1")
    whole, single = (sim.compile(env, 19, steps, "native", record=EVERYTHING) for steps in (40, 1))
    actions, state = random_actions(env, 40, 19), whole.reset(seed=1)
    after, trajectory = whole(state, actions)
    for step in range(40):
        state, row = single(state, actions[step : step + 1])
        for x, y in zip(jax.tree.leaves(trajectory), jax.tree.leaves(row), strict=True):
            np.testing.assert_array_equal(x[step], y[0])
    for x, y in zip(jax.tree.leaves(after), jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.release
def test_every_width_and_number_of_threads_gives_the_same_bits(monkeypatch):
    env, results = sim.make("CartPole-v1"), []
    actions = random_actions(env, 50, 45)
    for lanes, threads in ((4, 1), (8, 3), (16, 2)):
        monkeypatch.setattr(native, "lanes", lambda lanes=lanes: lanes)
        rollout = sim.compile(env, 45, 50, "native", num_threads=threads)
        results.append(jax.tree.leaves(rollout(rollout.reset(seed=2), actions)))
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


def test_callers_at_the_same_time_get_what_each_gets_alone():
    rollout = sim.compile(sim.make("CartPole-v1"), 200, 20, "native", num_threads=3)
    state, actions = rollout.reset(seed=2), [random_actions(rollout.env, 20, 200, seed) for seed in range(4)]
    alone = [jax.tree.leaves(rollout(state, each)) for each in actions]
    with ThreadPoolExecutor(4) as callers:
        for _ in range(10):
            together = list(callers.map(lambda each: jax.tree.leaves(rollout(state, each)), actions))
            for one, other in zip(alone, together, strict=True):
                for x, y in zip(one, other, strict=True):
                    np.testing.assert_array_equal(x, y)


def test_as_many_threads_as_are_asked_for_take_part_on_a_large_machine_too():
    rollout = sim.compile(sim.make("CartPole-v1"), 4096, 1, record=(), num_threads=100)
    rollout(rollout.reset(), np.zeros((1, 4096), np.int32))
    names = [(thread / "comm").read_text().strip() for thread in Path("/proc/self/task").iterdir()]
    assert names.count("drivetrain-pool") >= 99


@pytest.mark.release
def test_a_state_may_pass_from_engine_to_engine():
    env = sim.make("CartPole-v1")
    xla, native_one, numpy_one = (sim.compile(env, 6, 4, engine) for engine in ("xla", "native", "numpy"))
    actions = random_actions(env, 4, 6)
    state, _ = native_one(xla.reset(seed=5), actions)
    state, _ = numpy_one(state, actions)
    state, _ = xla(state, actions)
    assert int(state.step) == 12


@pytest.mark.whole
def test_inputs_stay_valid_and_observations_of_the_state_are_the_last_recorded():
    rollout = sim.compile(sim.make("CartPole-v1"), 6, 4, "native", record=("obs",))
    state, actions = rollout.reset(seed=5), random_actions(rollout.env, 4, 6)
    before = [np.array(leaf) for leaf in jax.tree.leaves(state)]
    after, trajectory = rollout(state, actions)
    for x, y in zip(before, jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(after.obs, trajectory["obs"][-1])
    assert trajectory["obs"].shape == (4, 6, 4)


def test_nothing_recorded_is_an_empty_trajectory():
    rollout = sim.compile(sim.make("CartPole-v1"), 6, 4, "native", record=())
    state, trajectory = rollout(rollout.reset(), random_actions(rollout.env, 4, 6))
    assert trajectory == {}
    assert state.obs is None


def test_environment_i_starts_from_the_ith_key_and_steps_fold_in_the_step():
    env = sim.make("CartPole-v1")
    rollout = sim.compile(env, 3, 2, "native", record=("obs",))
    state = rollout.reset(seed=9)
    keys = jax.random.split(jax.random.key(9), 3)
    np.testing.assert_array_equal(state.keys, jax.random.key_data(keys))
    obs, inner = env.reset(jax.random.fold_in(keys[1], 2**32 - 1), env.default_params)
    np.testing.assert_array_equal(state.obs[1], obs)
    actions = random_actions(env, 2, 3)
    _, trajectory = rollout(state, actions)
    for step in range(2):
        key = jax.random.split(jax.random.fold_in(keys[1], step))[0]
        obs, inner, *_ = env.step(key, inner, actions[step, 1], env.default_params)
        np.testing.assert_allclose(trajectory["obs"][step, 1], obs, rtol=1e-5, atol=1e-7)


def test_every_seed_of_32_bits_gives_the_keys_that_jax_gives():
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 1, "numpy")
    for seed in (0, 7, 2**31 - 1, 2**31, 2**32 - 1):
        state = rollout.reset(seed)
        words = jax.random.key_data(jax.random.split(jax.random.key(seed), 3))
        assert np.array_equal(state.keys, words)
        assert_same(state, jax.tree.map(np.asarray, rollout.start.state(seed, ())))


def test_constants_are_folded_by_the_meaning_of_operations(monkeypatch):
    env = sim.make("CartPole-v1")
    folded = sim.compile(env, 4, 3, "numpy")
    monkeypatch.setattr(folding, "MOST_ELEMENTS", 0)
    unfolded = sim.compile(env, 4, 3, "numpy")
    state, actions = folded.reset(), random_actions(env, 3, 4)
    assert_same(unfolded(state, actions), folded(state, actions))


MODULE = """
from dataclasses import dataclass
import jax
from drivetrain import sim

@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    time: jax.Array
    def later(self): return State(self.time + 1)

rollout = sim.compile(sim.make("CartPole-v1"), 4, 2)
"""
"""JAX holds the class for good, its method the module, and the module the rollout."""


@pytest.mark.release
def test_a_script_that_takes_a_class_from_a_module_with_a_rollout_ends_in_silence(tmp_path):
    (tmp_path / "states.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-c", "from states import State"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
