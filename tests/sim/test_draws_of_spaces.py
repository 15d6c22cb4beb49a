"""Spaces draw what they hold: all of it, and nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drivetrain import sim
from drivetrain.sim.spaces import Box

KEYS = jax.random.split(jax.random.key(0), 4096)


def draws(space):
    return np.asarray(jax.jit(jax.vmap(space.sample))(KEYS))


@pytest.mark.parametrize(
    ("low", "high", "dtype", "expected"),
    [
        (0, 1, jnp.int32, [0, 1]),
        (-2, 2, jnp.int32, [-2, -1, 0, 1, 2]),
        (-2.5, 2.5, jnp.int8, [-2, -1, 0, 1, 2]),
        (False, True, bool, [False, True]),
        (3, 3, jnp.int16, [3]),
        (0, 255, jnp.uint8, range(256)),
        (250, np.inf, jnp.uint8, [250, 251]),
        (-np.inf, np.inf, jnp.int32, [-1, 0, 1]),
        (-np.inf, np.inf, jnp.uint8, [0, 1]),
    ],
)
def test_integers_and_booleans_are_drawn_with_both_bounds_and_equally_often(low, high, dtype, expected):
    drawn = draws(Box(low, high, (2,), dtype))
    assert drawn.dtype == dtype
    found, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(found, list(expected))
    mean = drawn.size / len(counts)
    assert np.all(abs(counts - mean) < 5 * np.sqrt(mean))


@pytest.mark.parametrize(("low", "high", "dtype"), [
    (0, 2**32 - 1, jnp.uint32), (-(2**31), 2**31 - 1, jnp.int32), (-(2**30), 2**31 - 1, jnp.int32),
])  # fmt: skip
def test_integers_are_drawn_from_the_whole_of_wide_ranges(low, high, dtype):
    parts, _ = np.histogram(draws(Box(low, high, (), dtype)).astype(float), 4, (low, high))
    assert np.all(abs(parts / len(KEYS) - 0.25) < 0.05)


def test_bounds_of_each_element_and_bounds_that_are_computed_hold():
    drawn = draws(Box(np.array([0, -5]), np.array([1, 5]), (2,), jnp.int32))
    np.testing.assert_array_equal([drawn.min(axis=0), drawn.max(axis=0)], [[0, -5], [1, 5]])
    for bound in (2, 2.5):
        computed = jax.jit(jax.vmap(lambda key, x: Box(-x, x, (), jnp.int32).sample(key), (0, None)))(KEYS, bound)
        np.testing.assert_array_equal(np.unique(computed), [-2, -1, 0, 1, 2])


@pytest.mark.parametrize(("low", "high", "between"), [
    (-1e7, 1e7, (-1e7, 1e7)), (0.0, np.inf, (0, 1)), (-np.inf, 5.0, (4, 5)), (-np.inf, np.inf, (-1, 1)),
    (-3.4028235e38, 3.4028235e38, (-1, 1)), (-4.0, 3.4028235e38, (-4, -3)),
])  # fmt: skip
def test_real_numbers_are_drawn_from_the_whole_box_or_near_its_bounds_where_it_has_no_end(low, high, between):
    drawn = draws(Box(low, high, ()))
    assert between[0] <= drawn.min() <= drawn.max() <= between[1]
    parts, _ = np.histogram(drawn, 4, between)
    assert np.all(abs(parts / len(KEYS) - 0.25) < 0.05)


def test_draws_of_real_boxes_with_bounds_have_the_bits_that_they_had():
    key = jax.random.key(7)
    low, high = np.float32([-2, 0, 5]), np.float32([2, 0.5, 90])
    np.testing.assert_array_equal(
        Box(low, high, (3,)).sample(key), jax.random.uniform(key, (3,), jnp.float32, low, high)
    )


@pytest.mark.release
def test_every_engine_draws_the_same_integers():
    env = sim.make("Pendulum-v1")
    kind = type("Whole", (type(env),), {"action_space": lambda self, params: Box(-2, 2, (1,), jnp.int32)})
    drawn = []
    for engine in ("xla", "numpy", "native"):
        rollout = sim.compile(kind(), 64, 3, engine, policy=sim.policies.uniform(kind()), record=("action",))
        drawn.append(np.asarray(rollout(rollout.reset(seed=0))[1]["action"]))
    np.testing.assert_array_equal(np.unique(drawn[0]), [-2, -1, 0, 1, 2])
    np.testing.assert_array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[0], drawn[2])
