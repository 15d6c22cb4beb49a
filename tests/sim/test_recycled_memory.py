"""A rollout gives the memory of a trajectory again when nobody holds it any more, and never before."""

import gc
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

from drivetrain import sim
from drivetrain.sim.engines.arrays import Form
from drivetrain.sim.engines.recycled import ALIGNMENT, LEAST_NBYTES, Recycled


def floats(size):
    """So many of them."""
    return Form.of("x", jax.ShapeDtypeStruct((), np.dtype("float32")), (size,))


FORM = floats(LEAST_NBYTES)


def address(array):
    """Where an array lies."""
    return array.ctypes.data


def test_memory_that_was_dropped_is_given_again_aligned():
    memory = Recycled(1)
    first = memory.empty(FORM)
    where = address(first)
    assert where % ALIGNMENT == 0
    del first
    assert address(memory.empty(FORM)) == where


@pytest.mark.parametrize(
    "hold",
    [
        lambda array: array,
        lambda array: array[5:7].reshape(2, 1),
        memoryview,
        lambda array: jax.dlpack.from_dlpack(array),
        lambda array: pytest.importorskip("torch").from_numpy(array),
    ],
    ids=["the array", "a view of a view", "a buffer", "an array of JAX", "a tensor"],
)
def test_memory_that_somebody_holds_is_not_given_again(hold):
    memory = Recycled(1)
    array = memory.empty(FORM)
    where, held = address(array), hold(array)
    del array
    assert address(memory.empty(FORM)) != where
    del held
    gc.collect()
    assert where in {address(array) for array in [memory.empty(FORM) for _ in range(2)]}


def test_no_more_is_kept_than_two_calls_have_given():
    memory = Recycled(2)
    held = [memory.empty(floats(size)) for size in range(LEAST_NBYTES, LEAST_NBYTES + 9)]
    assert len({address(array) for array in held}) == 9
    assert len(memory.kept) == 4


def test_threads_that_ask_at_once_are_given_different_memory():
    memory = Recycled(4)

    def marked(number):
        for _ in range(300):
            array = memory.empty(floats(LEAST_NBYTES // 4))
            array[:] = number
            if not (array == number).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(marked, range(4)))


@pytest.mark.release
def test_a_trajectory_that_is_held_stays_as_it_was():
    rollout = sim.compile(sim.make("CartPole-v1"), 256, 64, "native", record=("obs", "reward"),
                          policy=sim.policies.uniform(sim.make("CartPole-v1")))  # fmt: skip
    state, kept = rollout(rollout.reset(seed=1))
    obs = kept["obs"][3:]
    before = obs.copy()
    del kept
    for _ in range(4):
        state, _ = rollout(state)
    np.testing.assert_array_equal(obs, before)
