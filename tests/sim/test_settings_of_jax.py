"""Simulators where JAX is told to count in 64 bits, or to let no array of NumPy's by."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from breaking import Good
from comparing import assert_same

from drivetrain import sim
from drivetrain.core.errors import CompileError
from drivetrain.sim.spaces import Box


class Held(Good):
    """It has constants, and bounds that JAX makes."""

    def reset(self, key, params):
        obs, state = super().reset(key, params)
        return obs + jnp.array([0.0]), state

    def step(self, key, state, action, params):
        state = (state[0] + jnp.array([0.0, 0.5])[action], state[1])
        return super().step(key, state, action, params)

    def observation_space(self, params):
        return Box(-jnp.array([9.0]), jnp.array([9.0]), (1,))


@pytest.mark.whole
def test_under_a_guard_of_transfers_simulators_compile_begin_step_and_are_checked_and_drawn():
    actions = np.ones((2, 3), np.int32)
    with jax.transfer_guard("disallow"):
        rollout = sim.compile(Held(), 3, 2, "numpy")
        state, _ = rollout(rollout.reset(1), actions)
        sim.check_env(Held(), num_steps=2)
        venv = sim.make_vec(Held(), 3, "numpy")
        np.testing.assert_array_equal(venv.reset(seed=1)[0], rollout.reset(1).obs)
        shown = sim.make_vec("Snake", 1, "numpy", render_mode="rgb_array")
        shown.reset(seed=1)
        assert shown.render()[0].any()
    assert_same(rollout(rollout.reset(1), actions)[0], state)


@pytest.mark.whole
@pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
def test_under_a_guard_of_transfers_xla_steps_the_environments_of_gymnasium(autoreset):
    actions = np.ones(3, np.int32)
    plain, guarded = (sim.make_vec(Held(), 3, "xla", autoreset=autoreset) for _ in range(2))
    plain.reset(seed=1)
    expected = [plain.step(actions) for _ in range(2)]
    with jax.transfer_guard("disallow"):
        guarded.reset(seed=1)
        assert_same(expected, [guarded.step(actions) for _ in range(2)])
        guarded.reset(options={"reset_mask": np.array([True, False, False])})


class Reusing(Held):
    def step(self, key, state, action, params):
        state = (state[0] + jax.random.uniform(key) - jax.random.uniform(key), state[1])
        return super().step(key, state, action, params)


@pytest.mark.whole
def test_where_jax_looks_for_keys_that_are_used_twice_simulators_are_checked_as_elsewhere():
    with pytest.raises(CompileError) as elsewhere:
        sim.check_env(Reusing(), num_steps=2)
    with jax.debug_key_reuse(True):
        sim.check_env(sim.make("CartPole-v1"), num_steps=20)
        with pytest.raises(CompileError) as there:
            sim.check_env(Reusing(), num_steps=2)
    assert str(there.value) == str(elsewhere.value)
    assert "is not a good environment yet" in str(there.value)


@pytest.mark.whole
def test_where_numbers_have_64_bits_the_block_that_is_told_of_has_those_of_32():
    env, actions = sim.make("Pong"), np.ones((2, 3), np.int32)
    rollout = sim.compile(env, 3, 2, "numpy")
    expected = rollout(rollout.reset(1), actions)
    with jax.enable_x64(True):
        with pytest.raises(CompileError, match=r"int64: leave .*, or make and compile within `with jax.enable_x64\(F"):
            sim.compile(env, 3, 2, "numpy")
        for engine in ("numpy", "xla"):
            with jax.enable_x64(False):
                rollout = sim.compile(env, 3, 2, engine)
            assert_same(expected, rollout(rollout.reset(1), actions))


@pytest.mark.whole
def test_a_rollout_has_the_same_numbers_where_others_have_64_bits():
    with jax.enable_x64(False):
        env, actions = sim.make("Pong"), np.ones((2, 3), np.int32)
        venv, rollout = sim.make_vec(env, 3, "numpy", autoreset="same_step"), sim.compile(env, 3, 2, "xla")
        expected = rollout(rollout.reset(7), actions)
    program = jax.jit(lambda seed: rollout(rollout.reset(seed), actions))
    with jax.enable_x64(True):
        assert_same(expected, program(jax.numpy.int64(7)))
        venv.reset(seed=7)
        np.testing.assert_array_equal(venv.step(actions[0])[0], expected[1]["obs"][0])
