"""The CUDA source, run as C++ behind a shim, gives the bits of `native`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("cuda.core", reason='needs the extra: pip install "drivetrain[cuda]"')

from comparing import EVERYTHING, Applied
from on_host import CLASSIC, both

from drivetrain import sim
from drivetrain.sim.registry import ENVIRONMENTS
from drivetrain.sim.spaces import Discrete

# The bsuite task that needs a download, and what needs more memory than a thread has.
BEYOND = ("MNISTBandit-bsuite", "Seaquest-MinAtar")
NUM_ENVS = 133  # more than a block, and neither a multiple of it nor of a warp
rng = np.random.default_rng(0)
SHIFTS = jnp.array([1, -8, 7, -9])
MASKS = jnp.asarray(np.random.default_rng(1).random((4, 64)) < 0.5)


@functools.cache
def start_of(name):
    """A state of NUM_ENVS environments, and how to draw their actions."""
    rollout = sim.compile(sim.make(name), NUM_ENVS, 1, "xla")
    space = rollout.env.action_space(rollout.params)
    shape = jax.eval_shape(space.sample, jax.random.key(0))

    def draw(*leading):
        whole = (*leading, *shape.shape)
        return (rng.integers(space.n, size=whole) if hasattr(space, "n") else rng.uniform(-2, 2, whole)).astype(
            shape.dtype
        )

    return jax.tree.map(np.asarray, rollout.reset(seed=3)), draw


def assert_same_bits(name, num_steps, num_envs=NUM_ENVS, **options):
    """Two calls of each, the second from where the first ended; returns how many episodes ended."""
    native, cuda = both(sim.make(name), num_envs, num_steps, **{"record": EVERYTHING, **options})
    state, draw = start_of(name)
    state, num_ended = jax.tree.map(lambda x: x[:num_envs] if np.ndim(x) else x, state), 0
    for _ in range(2):
        actions = draw(num_steps, num_envs)
        expected, got = native(state, actions), cuda(state, actions)
        assert jax.tree.structure(expected) == jax.tree.structure(got)
        for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(got), strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype), jax.tree_util.keystr(path)
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes(), jax.tree_util.keystr(path)
        state, trajectory = expected
        num_ended += int(sum(np.sum(trajectory.get(end, 0)) for end in ("terminated", "truncated")))
    return num_ended


@pytest.mark.whole
@pytest.mark.parametrize("name", CLASSIC)
def test_the_classic_environments(name):
    num_ended = assert_same_bits(name, num_steps=60)
    assert num_ended > NUM_ENVS or name not in ("CartPole-v1", "Knob")


class Rolling:
    """A board of Booleans that a loop rolls as tables say, by what its index makes of constants."""

    name, default_params = "Rolling", None

    def reset(self, key, params):
        board = jax.random.bernoulli(key, 0.3, (64,))
        return board, board

    def step(self, key, state, action, params):
        def turn(i, board):
            place = jnp.where((SHIFTS[i] > 0) & MASKS[i, 5], jnp.maximum(i, 2), jnp.sign(SHIFTS[i]) * 3 + i) % 64
            return (board ^ jnp.roll(board & MASKS[i], SHIFTS[i])).at[place].set(board[action] ^ (i > 2))

        board = jax.lax.fori_loop(0, 4, turn, state)
        return board, board, board.sum().astype(jnp.float32), board.all(), jnp.bool_(False), {}

    def action_space(self, params):
        return Discrete(64)

    observation_space = action_space


@pytest.mark.release
def test_numbers_that_a_loops_index_makes():
    native, cuda = both(Rolling(), 40, 12, record=("obs", "reward"))
    state, actions = native.reset(seed=0), np.random.default_rng(0).integers(64, size=(12, 40), dtype=np.int32)
    for x, y in zip(*map(jax.tree.leaves, (native(state, actions), cuda(state, actions))), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.whole
def test_numbers_that_a_loops_index_makes_go_around():
    def around(x):
        def turn(i, found):
            ends = (i * 1103515245 > 0, i + 2147483640 < i, -2147483640 - i - i > 0, -(i - 2147483647 - 1) < i)
            return jnp.stack(ends) ^ (found << 1)

        return jax.lax.fori_loop(0, 30, turn, jnp.full(4, x))

    numbers = np.arange(-16, 17, dtype=np.int32)
    native, cuda = both(Applied(around, numbers[0]), len(numbers), 1, record=("obs",), autoreset="disabled")
    state, actions = native.reset(), (numbers[None],)
    expected = native(state, actions)[1]["obs"][0]
    np.testing.assert_array_equal(expected, jax.vmap(around)(numbers))
    np.testing.assert_array_equal(cuda(state, actions)[1]["obs"][0], expected)


@pytest.mark.whole
@pytest.mark.parametrize("size", [9, 70], ids=["written out", "in loops"])
def test_sorts_of_zeros_of_both_signs_and_nan_are_those_of_xla_to_the_bit(size):
    def orders(x, n):
        pairs = jax.lax.sort((n.astype(jnp.uint8), x, n), num_keys=2)
        floats = jax.lax.bitcast_convert_type(jnp.stack([jnp.sort(x), pairs[1]]), jnp.int32)
        return floats, pairs[2], jnp.sort(n), jnp.argsort(x), jnp.argsort(n > 0)

    x = rng.choice(np.float32([-np.inf, -2, -0.0, 0, 1, np.nan, -np.nan]), (40, size))
    n = rng.integers(-2, 3, x.shape, dtype=np.int32)
    native, cuda = both(Applied(orders, x[0], n[0]), len(x), 1, record=("obs",), autoreset="disabled")
    state, actions = native.reset(), (x[None], n[None])
    expected = jax.tree.leaves(jax.jit(jax.vmap(orders))(x, n))
    for got in (native(state, actions), cuda(state, actions)):
        for left, right in zip(expected, jax.tree.leaves(got[1]["obs"]), strict=True):
            np.testing.assert_array_equal(right[0], left)


@pytest.mark.parametrize("num_envs", [1, 32])
def test_any_number_of_environments(num_envs):
    assert_same_bits("CartPole-v1", 5, num_envs)


@pytest.mark.whole
@pytest.mark.parametrize("options", [{"autoreset": "next_step", "record": ("obs", "final_obs")},
                                     {"autoreset": "disabled", "record": ()}], ids=str)  # fmt: skip
def test_other_restarts_and_records(options):
    assert_same_bits("CartPole-v1", 40, **options)


@pytest.mark.release
@pytest.mark.parametrize(("name", "narrow_obs"), [("Breakout-MinAtar", "bits"), ("FourRooms-misc", None)])
def test_some_of_gymnax(name, narrow_obs):
    pytest.importorskip("gymnax", reason='needs the extra: pip install "drivetrain[gymnax]"')
    assert_same_bits(f"gymnax/{name}", 30, narrow_obs=narrow_obs)


@pytest.mark.slow  # two compilations each
@pytest.mark.parametrize("name", [name for name in ENVIRONMENTS if name not in CLASSIC])
def test_the_other_environments_of_ours(name):
    assert_same_bits(name, 60)


@pytest.mark.slow  # minutes: two compilations each
@pytest.mark.timeout(1800)
def test_every_environment_of_gymnax():
    gymnax = pytest.importorskip("gymnax", reason='needs the extra: pip install "drivetrain[gymnax]"')
    for name in gymnax.registered_envs:
        if name not in BEYOND:
            assert_same_bits(f"gymnax/{name}", 60)
