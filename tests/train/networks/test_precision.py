"""Products in bfloat16: factors are rounded, sums are not, forward and backward; float32 is what it was."""

import re

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp
from one_sample import errors_of

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Sample
from drivetrain.train import train
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import BoxActions, DiscreteActions, Entries, Image, Interface, Vector
from drivetrain.train.learner.learner import Learner
from drivetrain.train.learner.sharing import ONE_LEARNER, WHOLE, compiled
from drivetrain.train.native_calls import ROUNDED
from drivetrain.train.networks import MLP, build, for_updates, initial_twins
from drivetrain.train.networks import rounded as rounded_module
from drivetrain.train.networks.products import product
from drivetrain.train.networks.rounded import rounded_product

SHAPES = {
    "a layer": ((5, 7), (7, 3)),
    "of a rollout": ((4, 5, 7), (7, 3)),
    "one row": ((7,), (7, 3)),
    "twins on the same rows": ((5, 7), (2, 7, 3)),
    "twins on rows of their own": ((2, 5, 7), (2, 7, 3)),
    "the first of both": ((5, 7), (1, 7, 3)),
    "a layer of whole tiles": ((64, 32), (32, 96)),
    "a layer of parts of tiles": ((33, 67), (67, 75)),
    "a rollout for tiles": ((4, 8, 40), (40, 17)),
    "twins on the same rows for tiles": ((17, 23), (2, 23, 33)),
    "twins on rows of their own for tiles": ((2, 17, 40), (2, 40, 2)),
    "the first of both for tiles": ((17, 40), (1, 40, 33)),
}


@pytest.fixture(params=[False, True], ids=["products of XLA", "calls for tiles"])
def tiles(request, monkeypatch):
    """Whether products are computed as where there are tiles; where there are none, such calls take plain loops."""
    monkeypatch.setattr(rounded_module, "has_tiles", lambda: request.param)
    return request.param


def rounded(x):
    """The nearest bfloat16, ties to even: the upper half of a float32."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    upper = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return (upper << 16).astype(np.uint32).view(np.float32).reshape(np.shape(x))


def expected(z, weight, slopes, behind_units=False):
    """x @ weight and the slopes of sum(slopes * (x @ weight)), in float64, of rounded factors; x is z or max(z, 0)."""
    z, weight, slopes = (np.asarray(rounded(array), np.float64) for array in (z, weight, slopes))
    x, on = (np.maximum(z, 0), z > 0) if behind_units else (z, 1)
    by_x = slopes @ weight.swapaxes(-1, -2)
    by_weight = np.atleast_2d(x).swapaxes(-1, -2) @ np.atleast_2d(slopes)
    return x @ weight, summed(by_x, x.shape) * on, summed(by_weight, weight.shape)


def summed(array, shape):
    """Over the axes that a broadcast has put before."""
    return array.reshape(-1, *shape).sum(0)


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("behind_units", [False, True], ids=["as it is", "behind units"])
def test_values_and_slopes_are_those_of_rounded_factors_with_exact_sums(behind_units, shapes):
    rng = np.random.default_rng(0)
    x, weight = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    out, pull = jax.vjp(lambda x, weight: rounded_product(x, weight, behind_units), x, weight)
    slopes = rng.normal(size=out.shape).astype(np.float32)
    found = (out, *pull(slopes))
    assert [array.dtype for array in found] == [np.float32] * 3
    assert [array.shape for array in found[1:]] == list(shapes)
    for ours, oracle in zip(found, expected(x, weight, slopes, behind_units), strict=True):
        np.testing.assert_allclose(ours, oracle, rtol=1e-5, atol=1e-5)
    exact = np.asarray(np.maximum(x, 0) if behind_units else x, np.float64) @ weight
    assert not np.allclose(out, exact, rtol=1e-5, atol=1e-5), "rounding can be seen"


def calls(function, *arguments):
    """The custom calls for tiles in a compiled function."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    return [name for name in ROUNDED if f'custom_call_target="{name}"' in text]


@pytest.mark.parametrize(("rows", "expected"), [(16, list(ROUNDED)), (15, [])])
def test_products_of_few_rows_are_xlas_and_all_others_are_calls_where_there_are_tiles(rows, expected, monkeypatch):
    monkeypatch.setattr(rounded_module, "has_tiles", lambda: True)
    x, weight = np.ones((rows, 32), np.float32), np.ones((32, 32), np.float32)
    slopes = jax.grad(lambda x, weight: jnp.square(product(x, weight, "bfloat16")).sum(), (0, 1))
    assert calls(slopes, x, weight) == expected


def test_a_slope_that_nobody_needs_is_not_computed(monkeypatch):
    monkeypatch.setattr(rounded_module, "has_tiles", lambda: True)
    x, weight = np.ones((16, 32), np.float32), np.ones((32, 32), np.float32)
    by_x = jax.grad(lambda x, weight: jnp.square(product(x, weight, "bfloat16")).sum())
    assert calls(by_x, x, weight) == ["drivetrain_rounded", "drivetrain_rounded_by_input"]


@pytest.mark.usefixtures("tiles")
def test_nan_is_kept_behind_units_and_the_slope_at_zero_is_zero():
    z, weight = np.zeros((16, 32), np.float32), np.ones((32, 32), np.float32)
    z[3, 5] = np.nan
    out, pull = jax.vjp(lambda z: rounded_product(z, weight, behind_units=True), z)
    assert np.array_equal(np.isnan(out).any(1), np.arange(16) == 3)
    np.testing.assert_array_equal(pull(np.ones_like(out))[0], np.where(np.isnan(z), 32, 0))


def test_a_call_of_arrays_of_other_sizes_is_refused_in_a_sentence():
    wrong = jax.ffi.ffi_call(ROUNDED[0], jax.ShapeDtypeStruct((16, 9), jnp.float32))
    rounded_product(np.ones((16, 2), "f"), np.ones((2, 2), "f"))  # registers it
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"a product of rounded factors: expected float32 \[\.\., rows"
    ):
        wrong(np.ones((16, 4), np.float32), np.ones((4, 8), np.float32), rectified=np.int64(0))


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_in_float32_the_product_is_the_operator_bit_for_bit(shapes):
    rng = np.random.default_rng(1)
    x, weight = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    assert np.array_equal(product(x, weight, "float32"), x @ weight)
    program = jax.make_jaxpr(lambda x, weight: product(x, weight, "float32"))(x, weight)
    assert str(program) == str(jax.make_jaxpr(lambda x, weight: x @ weight)(x, weight))


CAMERA = Entries(
    entries=(("camera", Image(shape=(40, 40), axes="HW")), ("body", Vector(shape=(3,)))), paths=(("camera",), ("body",))
)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("twins", [False, True], ids=["one", "twins"])
def test_every_product_of_a_network_on_images_and_vectors_is_computed_so(precision, twins, monkeypatch):
    monkeypatch.setattr(rounded_module, "has_tiles", lambda: False)
    network = for_updates(build(CAMERA, MLP(num_inputs=2, hidden=(8,), heads=(("q", 1),))), precision)
    rng = np.random.default_rng(0)
    pieces = initial_twins(network, rng) if twins else network.initial(rng)
    obs = {"camera": np.zeros((4, 40, 40), np.uint8), "body": np.zeros((4, 3), np.float32)}
    slopes = jax.jit(jax.grad(lambda p: network.apply(p, obs, jnp, np.zeros((4, 2), np.float32))["q"].sum()))
    factors = {"cuda": {"float32": "f32", "bfloat16": "bf16"}[precision], "cpu": "f32"}  # exact products either way
    for platform, kind in factors.items():
        program = slopes.trace(pieces).lower(lowering_platforms=(platform,)).as_text()
        found = [line.rpartition(" : ")[2] for line in program.splitlines() if "stablehlo.dot_general" in line]
        assert len(found) >= 6
        assert all(
            re.fullmatch(rf"\(tensor<.*x{kind}>, tensor<.*x{kind}>\) -> tensor<.*xf32>", types) for types in found
        )
        assert ("stablehlo.reduce_precision" in program) == (platform == "cpu" and precision == "bfloat16")


@pytest.mark.parametrize(("backend", "told", "expected"), [
    ("gpu", None, "HIGHEST"), ("gpu", "tensorfloat32", "HIGH"), ("cpu", None, "DEFAULT"),
])  # fmt: skip
def test_on_gpus_products_of_float32_are_of_float32_unless_jax_is_told_otherwise(backend, told, expected, monkeypatch):
    def state_and_products(state, x):
        return state + 1, jax.grad(lambda x: (product(x, x, "float32") ** 2).sum())(x)

    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    with jax.default_matmul_precision(told):
        both = compiled(state_and_products, ONE_LEARNER, (WHOLE, WHOLE), (WHOLE, WHOLE))
        lowered = both.trace(np.float32(0), np.ones((3, 3), "f")).lower(lowering_platforms=("cuda",))
    products = [line for line in lowered.as_text().splitlines() if "stablehlo.dot_general" in line]
    assert len(products) == 3
    assert all(f"precision = [{expected}, {expected}]" in line for line in products)


IMAGES = Interface(observations=Image(shape=(40, 40), axes="HW"), actions=DiscreteActions(count=3, start=0))
BOX = BoxActions(low=(-1.0,) * 2, high=(1.0,) * 2, shape=(2,), dtype="float32")
NUMBERS = Interface(observations=Vector(shape=(5,)), actions=BOX)
CHOICES = Interface(observations=Vector(shape=(5,)), actions=DiscreteActions(count=3, start=0))


def updated(algo, interface, precision):
    """What an update on made-up rows does to the published vector, and its TD errors."""
    settings = {"hidden": (16,), "batch_size": 8, "warmup_steps": 100, "updates_per_call": 1, "prioritized": True}
    config = TrainConfig.default(algo, "made up").override(**settings, precision=precision)
    learner = Learner(config, interface)
    rng, before = np.random.default_rng(0), learner.learned.vector
    shape, dtype = interface.observations.stored
    obs = (255 * rng.random((2, 1, 8, *shape))).astype(dtype)
    action = interface.zero_actions(1, 8)
    row = rng.random((1, 8), np.float32)
    data = {"obs": obs[0], "next_obs": obs[1], "action": action, "reward": row, "discount": row}
    errors = errors_of(learner, Sample(data, row, np.zeros((1, 8), np.uint64)))
    return learner.learned.vector - before, errors


@pytest.mark.parametrize(
    ("algo", "interface"),
    [
        ("dqn", CHOICES),
        # Each compiles twice as long:
        pytest.param("dqn", IMAGES, marks=pytest.mark.slow),
        pytest.param("sac", NUMBERS, marks=pytest.mark.slow),
    ],
)
def test_an_update_in_bfloat16_goes_nearly_the_same_way_and_state_stays_float32(algo, interface):
    exact, near = (updated(algo, interface, precision) for precision in ("float32", "bfloat16"))
    assert near[0].dtype == near[1].dtype == np.float32
    assert not np.array_equal(exact[1], near[1])
    assert np.allclose(exact[1], near[1], rtol=0.1, atol=0.05 * np.abs(exact[1]).max())
    aligned = (exact[0] @ near[0]) / np.linalg.norm(exact[0]) / np.linalg.norm(near[0])
    assert aligned > 0.7  # Adam's first step is the sign of the slope: small ones turn round


def test_a_run_in_bfloat16_trains_and_says_so_in_its_configuration(tmp_path):
    settings = {
        "num_actors": 0, "total_steps": 120, "warmup_steps": 60, "hidden": (8,), "batch_size": 8, "eval_episodes": 1,
        "final_eval_episodes": 1, "eval_max_steps": 10, "precision": "bfloat16", "envs_per_actor": 2,
    }  # fmt: skip
    result = train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), **settings)
    assert result.num_updates > 0
    assert TrainConfig.load(tmp_path / "run" / "config.json").run.precision == "bfloat16"


def test_what_would_change_nothing_or_is_unknown_is_refused():
    config = TrainConfig.default("ppo", "E")
    with pytest.raises(InvalidInput, match="precision: expected float32 beside a torso of your own, got bfloat16"):
        config.override(precision="bfloat16", torso="my_networks:torso")
    with pytest.raises(InvalidInput, match='precision: expected "float32" or "bfloat16"'):
        config.override(precision="float16")
