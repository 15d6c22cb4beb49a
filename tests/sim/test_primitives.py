"""Whatever JAX primitive an environment uses, engines give what XLA gives: random numbers to the bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import applied, assert_same
from primitives import CASES

pytestmark = pytest.mark.usefixtures("compiled_as_large_ones", "xla_as_users_have_it")


@pytest.mark.release
@pytest.mark.parametrize("name", CASES)
def test_primitives_give_on_every_engine_what_xla_gives(name):
    function, batches = CASES[name]()
    expected = applied(function, *batches, engine="xla")
    for engine in ("numpy", "native"):
        assert_same(expected, applied(function, *batches, engine=engine), f"{engine}: ")


@pytest.mark.parametrize("bound", [0.0, -0.0, 1.5, -1.5, np.inf, np.nan])
@pytest.mark.parametrize("is_first", [False, True])
def test_bounds_that_are_numbers_leave_nan_and_take_minus_zero_for_less_than_zero(bound, is_first):
    bound = np.float32(bound)

    def function(v):
        pair = (bound, v) if is_first else (v, bound)
        return jnp.maximum(*pair), jnp.minimum(*pair)

    x = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -1.5, 1e-45, -1e-45, 2.0], np.float32)
    largest, smallest = applied(function, x)
    signs = np.signbit(x), np.signbit(np.full_like(x, bound))
    for got, beyond, is_minus in ((largest, x > bound, np.minimum(*signs)), (smallest, x < bound, np.maximum(*signs))):
        expected = np.where(np.isnan(x) | beyond, x, bound)
        expected = np.where(expected == 0, np.where(is_minus, np.float32(-0.0), 0), expected)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got[~np.isnan(x)]), np.signbit(expected[~np.isnan(x)]))


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_a_constant_that_is_no_number_keeps_its_sign(engine):
    def function(k):
        table = jnp.asarray([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5], jnp.float32)
        alone = jnp.where(k == 1, jnp.float32(-np.nan), jnp.where(k == 2, jnp.inf, jnp.nan))
        return [jax.lax.bitcast_convert_type(x, jnp.int32) for x in (table[k], alone)]

    numbers = np.arange(7, dtype=np.int32)
    for x, y in zip(*(applied(function, numbers, engine=each) for each in ("xla", engine)), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_sums_of_one_number_are_that_number_also_where_it_is_minus_zero(engine):
    ones = jnp.ones((1, 70), jnp.float32)

    def function(x):
        return jnp.sum(x[0]), jnp.mean(x), jnp.vdot(x, x * 0 + 1), x @ ones, x @ ones[:, :3], (ones.T * x).sum(1)

    x = np.array([[-0.0], [0.0], [-1.5], [np.nan]], np.float32)
    for expected, got in zip(*(applied(function, x, engine=each) for each in ("xla", engine)), strict=True):
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got[:3]), np.signbit(expected[:3]))


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_minus_infinity_to_the_power_of_a_half_is_infinity(engine):
    x = np.array([-np.inf, np.inf, -0.0, -4.0, 4.0], np.float32)
    got = applied(lambda v: v**0.5, x, engine=engine)
    np.testing.assert_array_equal(got, applied(lambda v: v**0.5, x, engine="xla"))
    assert got[0] == np.inf


def test_hundreds_of_branches_are_not_inside_each_other_as_deep():
    branches = [lambda x, k=k: x - k for k in range(300)]
    numbers = np.array([-7, 0, 1, 149, 150, 151, 298, 299, 300, 2**30], np.int32)
    got = applied(lambda k: jax.lax.switch(k, branches, jnp.int32(0)), numbers, engine="numpy")
    np.testing.assert_array_equal(got, -np.clip(numbers, 0, 299))


def test_derivatives_go_through_branches():
    def function(x, k):
        def chosen(y):
            return jax.lax.cond(k > 0, lambda: (y * y * y).sum(), lambda: jnp.sin(y[0]))

        return jax.grad(chosen)(x)

    x, k = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([1, 0, 2, -1], np.int32)
    got = applied(function, x, k, engine="numpy")
    expected = np.where(k[:, None] > 0, 3 * x * x, np.cos(x) * [1, 0, 0])
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_logarithms_and_derivatives_compile_however_the_installed_jax_writes_them(engine):
    """JAX 0.11.2 has primitives of its own for them, `log2` and `one_minus_square`; 0.10 writes them by others."""

    def function(x):
        functions = (jnp.tanh, jnp.arcsin, jnp.arccos, jnp.arctanh)
        return jnp.log2(abs(x) * 8), [jax.grad(each)(x) for each in functions]

    x = np.array(
        [0, -0.0, 1, -1, 0.5, 0.999, 1e-7, -0.3, 2, np.inf, -np.inf, np.nan, *np.linspace(-1, 1, 21)], np.float32
    )
    expected = jax.jit(jax.vmap(function))(x)
    assert_same(expected, applied(function, x, engine=engine))


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_polynomials_compile_however_the_installed_jax_writes_them(engine):
    """JAX 0.12 has a primitive of its own for them, `polynomial`."""

    def function(x, k):
        several = jax.vmap(jnp.polyval, in_axes=(1, None))(jnp.stack([x, 2 * x, x * x]), x[:2])
        single = jnp.polyval(jnp.arange(3), k)
        return single, several, jnp.polyval(jnp.linspace(-1, 1, 12), x), jax.grad(lambda y: jnp.polyval(x, y))(x[0])

    x = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
    k = np.arange(-8, 8, dtype=np.int32)
    expected = jax.jit(jax.vmap(function))(x, k)
    assert_same(expected, applied(function, x, k, engine=engine))


def test_a_write_beyond_an_array_is_clipped_or_dropped_as_by_xla():
    def function(x, k):
        return [x.at[k].add(1, mode=mode) for mode in ("clip", "drop", "promise_in_bounds")]

    batches = np.zeros((6, 3), np.int32), np.array([0, 2, 3, 100, -3, -4], np.int32)
    for x, y in zip(*(applied(function, *batches, engine=engine) for engine in ("xla", "numpy")), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_a_boolean_leaves_out_of_a_product_what_has_no_meaning_as_under_xla(engine):
    """Where both are alike; XLA multiplies by a Boolean that is repeated to a vector's shape, and by what is chosen."""

    def function(x, k):
        is_there = k > 0
        vector = jnp.stack([x, -x])
        return [
            is_there * x,
            x * is_there.astype(jnp.float32),
            (vector < 0) * vector,
            jax.lax.scan(lambda count, row: (count, is_there * row), 0, vector)[1],
            is_there * vector,
            jnp.where(is_there, 1.0, 0.0) * x,
        ]

    x = np.array([np.nan, np.inf, -np.inf, -2.0, 0.0, -0.0] * 2, np.float32)
    k = np.repeat(np.array([0, 1], np.int32), 6)
    got, expected = (applied(function, x, k, engine=each) for each in (engine, "xla"))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(got[0][:6], 0)


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_zeros_keep_their_signs(engine):
    def function(k):
        zeros = jnp.array([0.0, -0.0])
        return [jnp.where(k > 0, zeros, 0.0), jnp.where(k > 0, -0.0, zeros), jnp.sign(zeros), jnp.sign(zeros[k])]

    chosen, others, signs, sign = map(np.signbit, applied(function, np.array([0, 1], np.int32), engine=engine))
    np.testing.assert_array_equal(chosen, [[False, False], [False, True]])
    np.testing.assert_array_equal(others, [[False, True], [True, True]])
    np.testing.assert_array_equal(signs, [[False, True], [False, True]])
    np.testing.assert_array_equal(sign, [False, True])
