"""Numbers below the smallest normal one are the same on every thread, whatever its control word says of them."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drivetrain import sim
from drivetrain.core._native import flush_denormals
from drivetrain.sim.spaces import Box, Discrete

NUM_STEPS = 70


class Damped:
    """Its state becomes a denormal after 63 steps, and 0 after 75; rewards as long as it is not 0."""

    default_params = None

    def reset(self, key, params):
        return jnp.ones(1), jnp.float32(1)

    def step(self, key, state, action, params):
        state = state * 0.25
        return state[None], state, jnp.where(state > 0, 1.0, 0.0), state == 0, False, {}

    def action_space(self, params):
        return Discrete(2)

    def observation_space(self, params):
        return Box(0.0, 1.0, (1,))


def returns(rollout, num_envs):
    _, records = rollout(rollout.reset(0), np.zeros((NUM_STEPS, num_envs), np.int32))
    return np.unique(np.asarray(records["reward"]).sum(0))


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_caller_that_flushes_denormals_gets_what_every_other_thread_gets(num_threads):
    num_envs, found = 4096, []
    rollout = sim.compile(
        Damped(), num_envs, NUM_STEPS, record=("reward",), autoreset="disabled", num_threads=num_threads
    )
    assert returns(rollout, num_envs) == [NUM_STEPS]  # and helpers are there, which flush nothing

    def flushing():
        flush_denormals()
        found.extend(returns(rollout, num_envs) for _ in range(3))
        found.append(np.float32(1e-38) * np.float32(0.01))

    thread = threading.Thread(target=flushing)
    thread.start()
    thread.join()
    assert found == [[NUM_STEPS]] * 3 + [0], "the caller's own arithmetic is as it was"


def test_a_kernel_inside_a_program_of_jax_takes_them_for_numbers_too():
    rollout = sim.compile(Damped(), 9, NUM_STEPS, record=("reward", "terminated"), autoreset="disabled")
    _, records = jax.jit(rollout)(rollout.reset(0), np.zeros((NUM_STEPS, 9), np.int32))
    np.testing.assert_array_equal(records["reward"].sum(0), NUM_STEPS)
    assert not records["terminated"].any()
