"""Products with few inputs or outputs: the same as the whole product, forward and backward."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp

from drivetrain.train.native_calls import NARROW
from drivetrain.train.networks import MLP, for_updates
from drivetrain.train.networks.narrow import narrow_product

SPREAD, OUTER, GATHER = NARROW
FITTING = {
    "a first layer": ((64, 4), (4, 256)),
    "a head": ((64, 256), (256, 2)),
    "sizes of no vector": ((13, 7), (7, 75)),
    "a head of odd sizes": ((11, 67), (67, 5)),
    "twins": ((2, 33, 3), (2, 3, 64)),
    "twins' heads": ((2, 33, 64), (2, 64, 3)),
    "the most outputs": ((9, 40), (40, 32)),
}
OTHERS = {
    "a few rows": ((4, 4), (4, 256)),
    "two large sides": ((64, 64), (64, 64)),
    "two small sides": ((64, 4), (4, 8)),
    "many inputs": ((64, 17), (17, 256)),
    "one output": ((64, 256), (256, 1)),
    "a vector": ((64,), (64, 4)),
    "one weight for several batches": ((2, 64, 4), (4, 64)),
}


def calls(function, *arguments):
    """The custom calls in a compiled function."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    return [name for name in NARROW if f'custom_call_target="{name}"' in text]


def drawn(shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def turned(array):
    return array.swapaxes(-1, -2)


@pytest.mark.parametrize("shapes", FITTING.values(), ids=FITTING)
def test_values_and_slopes_are_those_of_the_whole_product(shapes):
    x, weight = drawn(shapes)
    out, pull = jax.vjp(narrow_product, x, weight)
    (slopes,) = drawn([out.shape], seed=1)
    wide = [array.astype(np.float64) for array in (x, weight, slopes)]
    expected = wide[0] @ wide[1], wide[2] @ turned(wide[1]), turned(wide[0]) @ wide[2]
    for found, exact in zip((out, *pull(slopes)), expected, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("shapes", "forward", "by_input"), [(FITTING["a first layer"], SPREAD, GATHER), (FITTING["a head"], GATHER, SPREAD)]
)
def test_on_a_cpu_it_is_calls_of_ours_and_a_slope_that_nobody_needs_is_not_computed(shapes, forward, by_input):
    x, weight = drawn(shapes)

    def loss(x, weight):
        return jnp.square(narrow_product(x, weight)).sum()

    assert calls(jax.grad(loss, 1), x, weight) == sorted({forward, OUTER}, key=NARROW.index)
    assert calls(jax.grad(loss, 0), x, weight) == sorted({forward, by_input}, key=NARROW.index)


@pytest.mark.parametrize("shapes", OTHERS.values(), ids=OTHERS)
def test_where_it_would_not_pay_the_product_is_xlas(shapes):
    x, weight = drawn(shapes)
    assert calls(narrow_product, x, weight) == []
    np.testing.assert_allclose(narrow_product(x, weight), x @ weight, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("num_in", [3, 23, 80])
def test_twins_that_look_at_the_same_rows_give_what_each_gives_alone(num_in):
    x, weight = drawn(((33, num_in), (2, num_in, 64)))
    out, pull = jax.vjp(narrow_product, x, weight)
    (slopes,) = drawn([out.shape], seed=1)
    by_x, by_weight = pull(slopes)
    wide = [array.astype(np.float64) for array in (x, weight, slopes)]
    np.testing.assert_allclose(out, np.stack([wide[0] @ one for one in wide[1]]), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(by_x, sum(of @ one.T for one, of in zip(*wide[1:], strict=True)), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(by_weight, np.stack([wide[0].T @ of for of in wide[2]]), rtol=1e-5, atol=1e-4)


def test_other_numbers_than_float32_are_left_to_xla():
    halves = [jnp.asarray(array, jnp.bfloat16) for array in drawn(FITTING["a head"])]
    assert narrow_product(*halves).dtype == jnp.bfloat16
    assert calls(narrow_product, *halves) == []


def test_what_a_row_gives_does_not_depend_on_the_rows_beside_it():
    heads = [((11, num_in), (num_in, 5)) for num_in in range(64, 80)]
    for shapes in (*heads, FITTING["sizes of no vector"]):
        x, weight = drawn(shapes)
        whole = np.asarray(narrow_product(x, weight))
        np.testing.assert_array_equal(narrow_product(x[3:], weight)[:8], whole[3:][:8])


def test_what_has_diverged_is_seen():
    for shapes in (FITTING["a first layer"], FITTING["a head"]):
        x, weight = drawn(shapes)
        x[3, 1] = np.nan
        out, pull = jax.vjp(narrow_product, x, weight)
        assert np.array_equal(np.isnan(out).any(-1), np.arange(len(x)) == 3)
        assert np.isnan(pull(jnp.ones(out.shape))[1][1]).all()


def test_it_can_be_mapped_and_scanned():
    x, weight = drawn(((3, 32, 4), (4, 80)))

    def grad(x):
        return jax.grad(lambda weight: jnp.square(narrow_product(x, weight)).sum())(weight)

    expected = [2 * turned(rows) @ (rows @ weight) for rows in x]
    np.testing.assert_allclose(jax.vmap(grad)(x), expected, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(jax.lax.scan(lambda c, x: (c, grad(x)), 0, x)[1], expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_learners_network_computes_what_the_actors_network_does(activation):
    network = MLP(num_inputs=6, hidden=(64, 48), heads=(("q", 3),), activation=activation)
    pieces, (obs,) = network.initial(np.random.default_rng(3)), drawn([(32, 6)])
    learning = for_updates(network, "float32")
    ours = learning.apply(jax.tree.map(jnp.asarray, pieces), obs, jnp)["q"]
    np.testing.assert_allclose(ours, network.apply(pieces, obs, np)["q"], rtol=1e-5, atol=1e-5)
    assert calls(lambda pieces: learning.apply(pieces, obs, jnp), pieces) == [SPREAD, GATHER]
