"""Products behind rectified units: what is left out is what is multiplied by zero, forward and backward."""

import platform

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp

from drivetrain.replay import simd_level
from drivetrain.train.native_calls import RECTIFIED
from drivetrain.train.networks import MLP, for_updates, initial_twins
from drivetrain.train.networks.rectified import rectified, rectified_product

SHAPES = {
    "a layer": ((64, 128), (128, 96)),
    "sizes of no vector": ((17, 67), (67, 75)),
    "twins": ((2, 33, 64), (2, 64, 72)),
    "more rows than fit a block": ((130, 64), (64, 64)),
    "more columns than fit a panel": ((40, 310), (310, 270)),
}
WAYS = {
    "some off": lambda z: np.where(np.abs(z) < 0.2, -1, z),
    "half of all columns off": lambda z: np.where(np.arange(z.shape[-1]) % 2, -1, z),
    "all off": lambda z: -np.abs(z),
    "all on": lambda z: np.abs(z) + 0.1,
}


def calls(function, *arguments):
    """The custom calls in a compiled function."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    return [name for name in RECTIFIED if f'custom_call_target="{name}"' in text]


def drawn(shapes, way=WAYS["some off"], seed=0):
    rng = np.random.default_rng(seed)
    z, weight = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    return way(z).astype(np.float32), weight


def oracle(z, weight, slopes):
    """The product, and the slopes of sum(slopes * product), in float64."""
    z, weight, slopes = (np.asarray(array, np.float64) for array in (z, weight, slopes))
    h = np.maximum(z, 0)
    return h @ weight, (slopes @ weight.swapaxes(-1, -2)) * (z > 0), h.swapaxes(-1, -2) @ slopes


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_values_and_slopes_are_those_of_the_whole_product(shapes, way):
    z, weight = drawn(shapes, way)
    out, pull = jax.vjp(rectified_product, z, weight)
    slopes = np.random.default_rng(1).normal(size=out.shape).astype(np.float32)
    slopes[..., ::3] = 0  # columns that nothing comes back through
    for found, expected in zip((out, *pull(slopes)), oracle(z, weight, slopes), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.skipif(simd_level() == "baseline" and platform.machine() == "x86_64", reason="needs AVX2's fused sums")
def test_products_and_sums_are_fused_as_xla_fuses_them():
    """(1 + e)(1 - e) - 1 is -e^2, which is lost where the product is rounded before it is added."""
    e = np.float32(2**-13)
    z, weight = np.zeros((16, 64), np.float32), np.zeros((64, 64), np.float32)
    z[:, :2], weight[:2] = (1, 1 + e), ((-1,), (1 - e,))
    np.testing.assert_array_equal(rectified_product(z, weight), -(e**2))


def test_on_a_cpu_it_is_three_calls_of_ours():
    z, weight = drawn(SHAPES["a layer"])
    slopes = jax.grad(lambda z, weight: jnp.square(rectified_product(z, weight)).sum(), (0, 1))
    assert calls(slopes, z, weight) == list(RECTIFIED)


def test_a_slope_that_nobody_needs_is_not_computed():
    z, weight = drawn(SHAPES["a layer"])
    by_z = jax.grad(lambda z, weight: jnp.square(rectified_product(z, weight)).sum())
    assert calls(by_z, z, weight) == ["drivetrain_rectified", "drivetrain_rectified_by_input"]


@pytest.mark.parametrize("shapes", [((4, 128), (128, 96)), ((64, 17), (17, 96)), ((64, 128), (128, 2))])
def test_where_finding_zeros_would_not_pay_the_product_is_whole(shapes):
    z, weight = drawn(shapes)
    assert calls(rectified_product, z, weight) == []
    np.testing.assert_allclose(rectified_product(z, weight), np.maximum(z, 0) @ weight, rtol=1e-5, atol=1e-5)


def test_other_numbers_than_float32_are_multiplied_whole():
    z, weight = drawn(SHAPES["a layer"])
    halves = z.astype(jnp.bfloat16), weight.astype(jnp.bfloat16)
    assert rectified_product(*halves).dtype == jnp.bfloat16
    assert calls(rectified_product, *halves) == []


def test_equal_arguments_give_equal_bits_whatever_was_computed_before():
    z, weight = drawn(SHAPES["sizes of no vector"])
    product = jax.jit(rectified_product)
    first = np.asarray(product(z, weight))
    jax.block_until_ready(product(*drawn(SHAPES["a layer"], seed=5)))
    assert np.array_equal(product(z, weight), first)


@pytest.mark.parametrize("shapes", [SHAPES["a layer"], ((8, 20), (20, 24))], ids=["our calls", "a whole product"])
def test_what_has_diverged_is_seen(shapes):
    z, weight = drawn(shapes)
    z[3, 5] = np.nan
    out, pull = jax.vjp(rectified_product, z, weight)
    assert np.array_equal(np.isnan(out).any(-1), np.arange(len(z)) == 3)
    by_z, by_weight = pull(jnp.full(out.shape, jnp.nan))
    assert np.isnan(by_weight).any()
    assert np.isnan(np.asarray(by_z)[z > 0]).all()


def test_it_can_be_mapped_scanned_and_differentiated_inside():
    z, weight = drawn(((3, 32, 64), (64, 80)))

    def whole(z, weight):
        return jnp.square(jnp.maximum(z, 0) @ weight).sum()

    def ours(z, weight):
        return jnp.square(rectified_product(z, weight)).sum()

    mapped = jax.vmap(jax.grad(ours), (0, None))(z, weight)
    scanned = jax.lax.scan(lambda carry, z: (carry, jax.grad(ours)(z, weight)), 0, z)[1]
    expected = jax.vmap(jax.grad(whole), (0, None))(z, weight)
    np.testing.assert_allclose(mapped, expected, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(scanned, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.release
def test_a_learners_network_computes_what_the_actors_network_does():
    network = MLP(num_inputs=6, hidden=(96, 80, 64), heads=(("q", 3), ("value", 1)))
    learning = for_updates(network, "float32")
    rng = np.random.default_rng(3)
    obs = rng.normal(size=(32, 6)).astype(np.float32)
    for pieces in (network.initial(rng), initial_twins(network, rng)):
        ours = learning.apply(jax.tree.map(jnp.asarray, pieces), obs, jnp)
        actors = network.apply(pieces, obs, np)
        for head, _ in network.heads:
            np.testing.assert_allclose(ours[head], actors[head], rtol=1e-5, atol=1e-5)
    assert calls(lambda pieces: learning.apply(pieces, obs, jnp), network.initial(rng)) == ["drivetrain_rectified"]


@pytest.mark.parametrize("change", [{"activation": "tanh"}, {"precision": "bfloat16"}])
def test_networks_without_rectified_units_or_in_another_precision_are_left_alone(change):
    network = MLP(num_inputs=6, hidden=(96, 80), heads=(("q", 3),), activation=change.get("activation", "relu"))
    learning = for_updates(network, change.get("precision", "float32"))
    pieces = network.initial(np.random.default_rng(0))
    assert calls(lambda pieces: learning.apply(pieces, np.ones((32, 6), np.float32), jnp), pieces) == []


def test_the_units_alone_have_no_slope_at_zero_and_keep_nan():
    z = jnp.array([-1.0, -0.0, 0.0, 2.0, jnp.nan])
    np.testing.assert_array_equal(rectified(z), [0, 0, 0, 2, np.nan])
    np.testing.assert_array_equal(jax.grad(lambda z: (3 * rectified(z)).sum())(z)[:4], [0, 0, 0, 3])
