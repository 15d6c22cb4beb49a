"""Random numbers under a counter are Philox's, the same on every engine; under JAX's keys they are JAX's."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import applied, assert_engine_equals_xla, random_actions

from drivetrain import sim
from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim import random
from drivetrain.sim.random import Counter

# Counter, key and result, from the authors' known answers (Random123, kat_vectors, philox4x32 10).
KNOWN = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def counter(step=0, purpose=0):
    return Counter(*(jnp.uint32(x) for x in (7, 9, step, purpose)))


def test_what_authors_may_draw_with_is_what_the_guide_lists():
    guide = (Path(__file__).parents[2] / "docs" / "sim.md").read_text()
    listed = re.search(r"Draw with `sim\.random` in place of `jax\.random` \((.*?)\)", guide, re.DOTALL)
    assert sorted(re.findall(r"`(\w+)`", listed[1])) == random.__all__
    assert all(callable(getattr(random, name)) for name in random.__all__)


@pytest.mark.parametrize(("words", "key", "expected"), KNOWN)
def test_philox_gives_its_authors_known_answers(words, key, expected):
    got = random.philox(*(jnp.uint32(x) for x in (*key, *words)))
    assert tuple(int(x) for x in got) == expected


def test_products_have_both_words():
    x, y = np.random.default_rng(0).integers(0, 2**32, (2, 1000), dtype=np.uint64)
    x[:2], y[:2] = 2**32 - 1, 2**32 - 1
    high, low = random.product(jnp.asarray(x, jnp.uint32), jnp.asarray(y, jnp.uint32))
    np.testing.assert_array_equal((x * y) >> np.uint64(32), high)
    np.testing.assert_array_equal((x * y).astype(np.uint32), low)


def test_a_draw_is_the_same_however_much_is_drawn():
    few, many = random.bits(counter(), (3,)), random.bits(counter(), (50,))
    np.testing.assert_array_equal(few, many[:3])
    assert len(np.unique(many)) == 50


def test_steps_purposes_splits_and_folds_are_streams_of_their_own():
    keys = [counter(), counter(step=1), counter(purpose=1), *random.split(counter(), 3), random.fold_in(counter(), 0)]
    words = np.concatenate([random.bits(key, (20,)) for key in keys])
    assert len(np.unique(words)) == 20 * len(keys)


def test_numbers_lie_where_they_should_and_have_their_means():
    key = counter()
    uniform = np.asarray(random.uniform(key, (20_000,), -2.0, 3.0))
    assert (uniform >= -2).all()
    assert (uniform < 3).all()
    assert abs(uniform.mean() - 0.5) < 0.05
    integers = np.asarray(random.randint(key, (20_000,), -3, 4))
    assert sorted(np.unique(integers)) == list(range(-3, 4))
    assert np.bincount(integers + 3).min() > 2_500
    normal = np.asarray(random.normal(key, (20_000,)))
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.03
    assert abs(np.asarray(random.bernoulli(key, 0.3, (20_000,))).mean() - 0.3) < 0.02


def test_under_keys_of_jax_the_numbers_are_those_of_jax():
    key = jax.random.key(3)
    np.testing.assert_array_equal(random.bits(key, (5,)), jax.random.bits(key, (5,), jnp.uint32))
    np.testing.assert_array_equal(
        random.uniform(key, (5,), -1.0, 2.0), jax.random.uniform(key, (5,), minval=-1, maxval=2)
    )
    np.testing.assert_array_equal(random.randint(key, (5,), 1, 9), jax.random.randint(key, (5,), 1, 9))
    np.testing.assert_array_equal(random.normal(key, (5,)), jax.random.normal(key, (5,)))
    np.testing.assert_array_equal(random.bernoulli(key, 0.4, (5,)), jax.random.bernoulli(key, 0.4, (5,)))
    parts = zip(random.split(key, 3), jax.random.split(key, 3), strict=True)
    assert all((jax.random.key_data(x) == jax.random.key_data(y)).all() for x, y in parts)
    assert (jax.random.key_data(random.fold_in(key, 4)) == jax.random.key_data(jax.random.fold_in(key, 4))).all()


@pytest.mark.release
@pytest.mark.parametrize("engine", ["native", "numpy"])
@pytest.mark.parametrize("name", ["CartPole-v1", "Knob"])
def test_engines_take_the_same_steps_under_the_counter(name, engine):
    options = {"reset_rate": 0.1} if name == "Knob" else {}
    ended = assert_engine_equals_xla(sim.make(name, **options), engine, num_envs=11, num_steps=60, generator="philox")
    assert ended > 10


def test_the_generator_changes_the_starts_and_nothing_else():
    starts = [
        np.asarray(sim.compile(sim.make("CartPole-v1"), 50, 1, "xla", generator=generator).reset(seed=1).obs)
        for generator in ("threefry", "philox")
    ]
    assert not np.array_equal(*starts)
    assert all((np.abs(obs) <= 0.05).all() for obs in starts)


def test_an_environment_that_draws_with_jax_is_told_what_to_change():
    class Own:
        name = "Own"
        default_params = None

        def reset(self, key, params):
            x = jax.random.uniform(key, (2,))
            return x, x

        def step(self, key, state, action, params):
            return state, state, jnp.float32(0), False, False, {}

        def action_space(self, params):
            return sim.make("CartPole-v1").action_space(None)

        observation_space = action_space

    with pytest.raises(CompileError, match=r"`reset` cannot be traced.*draw with drivetrain\.sim\.random"):
        sim.compile(Own(), 2, 2, "xla", generator="philox")


class Drawing(type(sim.make("Pendulum-v1"))):
    """A place that is drawn by a key of a key, and rewards that are drawn."""

    def reset(self, key, params):
        _, state = super().reset(key, params)
        place, _ = random.split(random.split(key)[0])
        return random.normal(place, (3,)), state

    def step(self, key, state, action, params):
        obs, state, _, *more = super().step(key, state, action, params)
        return obs, state, random.normal(key, (3,))[0], *more


@pytest.mark.whole
@pytest.mark.parametrize("generator", ["threefry", "philox"])
def test_a_start_draws_nothing_that_a_step_draws(generator):
    rollout = sim.compile(Drawing(), 4, 3, "numpy", record=("obs", "reward"), generator=generator)
    state = rollout.reset(seed=3)
    _, trajectory = rollout(state, random_actions(rollout.env, 3, 4))
    assert not np.isin(np.asarray(state.obs)[:, 0], trajectory["reward"]).any()


def test_an_unknown_generator_is_refused():
    with pytest.raises(InvalidInput, match="generator: expected one of threefry, philox, got 'mersenne'"):
        sim.compile(sim.make("CartPole-v1"), 2, 2, "xla", generator="mersenne")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda keys: jax.random.permutation(keys[0], keys), r"`sort` .*: draw an order of their positions, keys\[jax"),
        (lambda keys: jax.lax.pad(keys, keys[0], [(1, 1, 0)]), "`pad` .*: put them together by jnp.concatenate"),
        (lambda keys: jax.lax.top_k(keys, 2)[0], r"`top_k` .*: choose by numbers, and take keys\[positions\]"),
        (
            lambda keys: keys[jax.lax.argmax(keys, 0, jnp.int32)],
            "`argmax` .*: compare their words, jax.random.key_data",
        ),
    ],
)
def test_what_jax_traces_for_keys_and_cannot_compile_is_told_with_the_line(function, told):
    def of_keys(x):
        return jax.random.key_data(function(jax.random.split(jax.random.key(x.astype(int)), 4))).sum()

    with pytest.raises(CompileError, match=rf"test_random.py:\d+: neither JAX nor an engine .* {told}"):
        applied(of_keys, np.zeros(2, np.float32), engine="numpy")


@pytest.mark.parametrize("generator", ["threefry", "philox"])
@pytest.mark.parametrize(
    "draw",
    [
        lambda key: random.uniform(key, minval=jnp.zeros(4), maxval=jnp.ones(4)),
        lambda key: random.bernoulli(key, jnp.full(4, 0.5)),
        lambda key: random.randint(key, (2,), 0, jnp.array([9, 9, 9, 9])),
    ],
)
def test_several_numbers_never_share_a_draw_because_a_shape_was_left_out(draw, generator):
    with pytest.raises(ValueError, match="shape"):
        draw(counter() if generator == "philox" else jax.random.key(0))


@pytest.mark.parametrize("generator", ["threefry", "philox"])
def test_of_no_integers_the_first_is_drawn(generator):
    key = counter() if generator == "philox" else jax.random.key(0)
    np.testing.assert_array_equal(random.randint(key, (3, 2), jnp.array([5, 5]), jnp.array([2, 5])), 5)


def test_a_start_from_a_random_key_is_told_to_draw_a_seed_from_it():
    rollout, told = sim.compile(sim.make("CartPole-v1"), 3, 2, "numpy"), r"got a random key; .* jax.random.bits\(key\)$"
    for key in (jax.random.key(4), jax.random.PRNGKey(4), jax.random.split(jax.random.key(4), 3)):
        with pytest.raises(InvalidInput, match=told):
            rollout.reset(key)
    drawn = jax.random.bits(jax.random.key(4))
    np.testing.assert_array_equal(rollout.reset(drawn).obs, jax.jit(rollout.reset)(drawn).obs)
