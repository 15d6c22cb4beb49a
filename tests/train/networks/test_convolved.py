"""Convolutions that leave out what is multiplied by zero: forward, backward, and in the networks that use them."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp
from one_sample import errors_of

from drivetrain.replay import Sample
from drivetrain.train._native import convolutions
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import DiscreteActions, Entries, Image, Interface, Vector
from drivetrain.train.learner.learner import Learner
from drivetrain.train.native_calls import CONVOLUTION, ROUNDED_CONVOLUTION
from drivetrain.train.networks import MLP, acting, build, convolved, for_updates, initial_twins, rounded
from drivetrain.train.networks.convolved import convolution
from drivetrain.train.networks.patches import convolve

LAYERS = {  # images as they go in, weight, stride
    "units": ((3, 20, 19, 32), (4, 4, 32, 64), 2),
    "units whose kernel overlaps itself": ((2, 9, 7, 64), (3, 3, 64, 48), 1),
    "bytes": ((3, 4, 40, 36), (8, 8, 4, 32), 4),
    "bytes of one channel, sizes that strides do not divide": ((2, 1, 43, 38), (8, 8, 1, 32), 4),
    "bytes of three channels": ((2, 3, 36, 36), (8, 8, 3, 32), 4),
}
WAYS = {
    "some": lambda x: x,
    "none off": lambda x: np.abs(x) if x.dtype == np.float32 else np.maximum(x, 1),
    "all alike": lambda x: np.full_like(x, -1 if x.dtype == np.float32 else 200),
    "a background": lambda x: np.where(np.abs(x.astype(np.float32)) < 1, x, x.dtype.type(3)),
}


def drawn(layer, way=WAYS["some"], seed=0):
    shape, weights, stride = layer
    rng = np.random.default_rng(seed)
    images = rng.normal(size=shape).astype(np.float32)
    if weights[2] == shape[1]:
        images = rng.integers(0, 256, shape, np.uint8)
    weight, bias = (rng.normal(size=size).astype(np.float32) for size in (weights, weights[-1:]))
    return way(images), weight, bias, stride


def seen(x):
    """What a layer sees of its images, channels last, in float64."""
    if x.dtype == np.uint8:
        return x.transpose(0, 2, 3, 1) / 255.0
    return np.maximum(x, 0).astype(np.float64)


def oracle(x, weight, bias, stride, slopes):
    """Outputs, and the slopes of sum(slopes * outputs) by x, weight and bias, patch by patch in float64."""
    h, side = seen(x), weight.shape[0]
    out = np.zeros(slopes.shape)
    by_h, by_weight = np.zeros(h.shape), np.zeros(weight.shape)
    for i, j in np.ndindex(slopes.shape[1:3]):
        part = np.s_[:, i * stride : i * stride + side, j * stride : j * stride + side]
        out[:, i, j] = np.tensordot(h[part], weight, 3) + bias
        by_weight += np.einsum("nijc,no->ijco", h[part], slopes[:, i, j])
        by_h[part] += np.einsum("ijco,no->nijc", weight, slopes[:, i, j])
    return (
        out,
        np.where(np.asarray(x) > 0, by_h, 0) if x.dtype == np.float32 else None,
        by_weight,
        slopes.sum((0, 1, 2)),
    )


def calls(function, *arguments):
    """The custom calls in a compiled function."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    return [name for name in (*CONVOLUTION, *ROUNDED_CONVOLUTION) if f'custom_call_target="{name}"' in text]


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_outputs_and_slopes_are_those_of_all_patches(layer, way):
    x, weight, bias, stride = drawn(layer, way)
    out, pull = jax.vjp(lambda weight, bias: convolution(x, weight, bias, stride), weight, bias)
    slopes = np.random.default_rng(1).normal(size=out.shape).astype(np.float32)
    slopes[..., ::3] = 0  # channels that nothing comes back through
    expected, by_x, by_weight, by_bias = oracle(x, weight, bias, stride, slopes)
    for found, wanted in zip((out, *pull(slopes)), (expected, by_weight, by_bias), strict=True):
        assert found.dtype == np.float32
        assert_close(found, wanted)
    if by_x is not None:
        assert_close(jax.vjp(lambda x: convolution(x, weight, bias, stride), x)[1](slopes)[0], by_x)


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_what_other_devices_compute_is_the_same(layer):
    x, weight, bias, stride = drawn(layer)

    def graded(by_patches):
        def loss(weight, bias):
            if not by_patches:
                return jnp.square(convolution(x, weight, bias, stride)).sum()
            h = jnp.asarray(seen(x), jnp.float32)
            return jnp.square(convolve(h, weight, stride, jnp) + bias).sum()

        return jax.grad(loss, (0, 1))(weight, bias)

    for ours, theirs in zip(graded(False), graded(True), strict=True):
        assert_close(ours, theirs)
    slopes = jax.jit(jax.grad(lambda w: convolution(x, w, bias, stride).sum()))
    program = slopes.trace(weight).lower(lowering_platforms=("cuda",)).as_text()
    assert "dot_general" in program
    assert not any(name in program for name in CONVOLUTION)


def test_each_slope_is_a_call_of_its_own_and_left_out_where_nobody_needs_it():
    x, weight, bias, stride = drawn(LAYERS["units"])
    forward, by_weight, by_x = CONVOLUTION
    assert calls(lambda w: convolution(x, w, bias, stride), weight) == [forward]
    assert calls(jax.grad(lambda w: convolution(x, w, bias, stride).sum()), weight) == [by_weight]
    assert calls(jax.grad(lambda x: convolution(x, weight, bias, stride).sum()), x) == [by_x]


@pytest.fixture
def tiles(monkeypatch):
    """Sets whether there are tiles; where there are none, calls for them take plain loops."""

    def set_to(there):
        for module in (convolved, rounded):
            monkeypatch.setattr(module, "has_tiles", lambda: there)

    return set_to


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_in_bfloat16_outputs_and_slopes_are_those_of_rounded_patches(layer, tiles):
    x, weight, bias, stride = drawn(layer)
    images = [] if x.dtype == np.uint8 else [x]
    unit = np.float32(1 if images else 1 / 255)  # what comes of bytes is divided after all sums: they are not rounded

    def by_patches(weight, bias, *images):
        h = jnp.asarray(x.transpose(0, 2, 3, 1), jnp.float32) if not images else jnp.maximum(images[0], 0)
        return convolve(h, weight, stride, jnp, "bfloat16") + bias / unit

    def by_calls(weight, bias, *images):
        return convolution(*(images or [x]), weight, bias, stride, "bfloat16")

    found = []
    for there, function in ((True, by_calls), (False, by_patches)):
        tiles(there)
        out, pull = jax.vjp(function, weight, bias, *images)
        found.append((out, *pull(np.random.default_rng(1).normal(size=out.shape).astype(np.float32))))
    for ours, theirs in zip(*found, strict=True):
        assert ours.dtype == np.float32
        assert_close(ours, theirs * unit)
    assert not np.allclose(found[0][0], convolution(x, weight, bias, stride), rtol=1e-4), "rounding can be seen"
    program = jax.jit(by_calls).trace(weight, bias).lower(lowering_platforms=("cuda",)).as_text()
    assert "xbf16>" in program
    assert not any(name in program for name in ROUNDED_CONVOLUTION)


def test_it_can_be_mapped_and_scanned():
    x, weight, bias, stride = drawn(LAYERS["units"])

    def loss(weight, x):
        return jnp.square(convolution(x, weight, bias, stride)).sum()

    both = np.stack([x, x[::-1] * 2])
    expected = np.stack([jax.grad(loss)(weight, one) for one in both])
    assert_close(jax.vmap(jax.grad(loss), (None, 0))(weight, both), expected)
    assert_close(jax.lax.scan(lambda carry, one: (carry, jax.grad(loss)(weight, one)), 0, both)[1], expected)


def test_what_an_image_gives_does_not_depend_on_those_beside_it():
    for layer in LAYERS.values():
        x, weight, bias, stride = drawn(layer)
        whole = np.asarray(convolution(x, weight, bias, stride))
        for index in range(len(x)):
            assert np.array_equal(convolution(x[index : index + 1], weight, bias, stride)[0], whole[index])


def test_what_has_diverged_is_seen():
    x, weight, bias, stride = drawn(LAYERS["units"])
    x[1, 5, 5, 3] = np.nan
    out = np.asarray(convolution(x, weight, bias, stride))
    assert np.array_equal(np.isnan(out).any((1, 2, 3)), [False, True, False])
    x, weight, bias, stride = drawn(LAYERS["bytes"])
    weight[2, 3, 1, 7] = np.nan
    assert np.isnan(np.asarray(convolution(x, weight, bias, stride))[..., 7]).all()
    slopes = np.zeros(out.shape, np.float32)
    slopes[0, 0, 0, 9] = np.nan
    x, weight, bias, stride = drawn(LAYERS["units"], WAYS["none off"])
    by_x, by_weight, by_bias = jax.vjp(lambda *them: convolution(*them, stride), x, weight, bias)[1](slopes)
    assert np.isnan(by_x).any()
    assert np.isnan(by_weight[..., 9]).all()
    assert np.isnan(by_bias[9])


OBSERVATIONS = {
    "a stack of frames": Image(shape=(4, 44, 40), axes="KHW"),
    "colours, last": Image(shape=(37, 45, 3), axes="HWC"),
    "a stack of colours": Image(shape=(2, 3, 41, 38), axes="KCHW"),
    "no channels": Image(shape=(36, 36), axes="HW"),
    "with numbers beside": Entries(
        entries=(("camera", Image(shape=(40, 40), axes="HW")), ("body", Vector(shape=(3,)))),
        paths=(("camera",), ("body",)),
    ),
}


def shown(observations, *lead):
    rng = np.random.default_rng(0)
    if isinstance(observations, Image):
        return rng.integers(0, 256, (*lead, *observations.shape), dtype=np.uint8)
    if isinstance(observations, Vector):
        return rng.normal(size=(*lead, *observations.shape)).astype(np.float32)
    return {name: shown(entry, *lead) for name, entry in observations.entries}


@pytest.mark.parametrize("observations", OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_actors_and_learners_compute_what_patches_give(observations, tiles):
    network = build(observations, MLP(num_inputs=0, hidden=(24,), heads=(("q", 3),)))
    pieces, obs = network.initial(np.random.default_rng(1)), shown(observations, 18)
    expected = network.apply(pieces, obs, np)["q"]
    assert_close(acting(network).apply(pieces, obs, np)["q"], expected)
    learning = for_updates(network, "float32")
    assert_close(learning.apply(jax.tree.map(jnp.asarray, pieces), obs, jnp)["q"], expected)
    assert calls(lambda pieces: learning.apply(pieces, obs, jnp)["q"], pieces) == [CONVOLUTION[0]]
    in_bfloat16 = for_updates(network, "bfloat16")
    for there, names in ((False, []), (True, [ROUNDED_CONVOLUTION[0]])):
        tiles(there)
        assert calls(lambda pieces: in_bfloat16.apply(pieces, obs, jnp)["q"], pieces) == names
        np.testing.assert_allclose(in_bfloat16.apply(pieces, obs, jnp)["q"], expected, atol=0.02)


def test_what_an_actor_sees_in_an_image_does_not_depend_on_those_beside_it():
    observations = OBSERVATIONS["a stack of frames"]
    torso = acting(build(observations, MLP(num_inputs=0, hidden=(), heads=(("q", 3),)))).torso
    pieces, obs = torso.initial(np.random.default_rng(1), None), shown(observations, 18)
    features = torso.features(pieces, obs, np)
    for index in range(len(obs)):
        assert np.array_equal(torso.features(pieces, obs[index : index + 1], np)[0], features[index])


@pytest.mark.release
def test_the_slopes_of_a_network_are_those_of_patches():
    observations = OBSERVATIONS["a stack of frames"]
    network = build(observations, MLP(num_inputs=2, hidden=(24,), heads=(("q", 1),)))
    rng = np.random.default_rng(1)
    pieces = jax.tree.map(jnp.asarray, initial_twins(network, rng))
    obs, action = shown(observations, 18), rng.normal(size=(18, 2)).astype(np.float32)

    def slopes(network):
        return jax.grad(lambda pieces: jnp.square(network.apply(pieces, obs, jnp, action)["q"]).sum())(pieces)

    ours, theirs = slopes(for_updates(network, "float32")), slopes(network)
    for name in ours:
        assert_close(ours[name], theirs[name])


@pytest.mark.release
def test_a_learner_of_images_learns_what_it_did_by_patches(monkeypatch):
    interface = Interface(observations=OBSERVATIONS["no channels"], actions=DiscreteActions(count=3, start=0))
    settings = {"hidden": (), "batch_size": 8, "warmup_steps": 100, "updates_per_call": 3}
    config = TrainConfig.default("dqn", "made up").override(**settings)

    def learned():
        learner, rng, rows = Learner(config, interface), np.random.default_rng(0), (3, 8)
        data = {
            "obs": shown(interface.observations, *rows),
            "action": rng.integers(0, 3, rows),
            "reward": rng.normal(size=rows).astype(np.float32),
            "next_obs": shown(interface.observations, *rows)[:, ::-1],
            "discount": np.full(rows, 0.9, np.float32),
        }
        sample = Sample(data=data, keys=np.zeros(rows, np.uint64), weights=np.ones(rows, np.float32))
        errors = errors_of(learner, sample)
        return learner.learned.vector, errors

    ours = learned()
    monkeypatch.setattr("drivetrain.train.networks.convolution.NatureCNN._learning", _patches)
    theirs = learned()
    assert not np.array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[0], theirs[0], atol=2e-5)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-3, atol=1e-5)


def _patches(self, pieces, images, xp):
    return self._by_patches(pieces, images, xp)


@pytest.mark.parametrize(
    "change",
    [
        {"images": np.zeros((2, 4, 40, 40), np.float32)},
        {"images": np.zeros((2, 4, 40), np.uint8)},
        {"images": np.zeros((2, 4, 7, 40), np.uint8)},
        {"images": np.zeros((2, 3, 40, 40), np.uint8)},
        {"images": np.zeros((2, 4, 40, 80), np.uint8)[..., ::2]},
        {"pieces": (np.zeros((8, 8, 4, 20), np.float32), np.zeros(20, np.float32))},
        {"pieces": (np.zeros((8, 8, 4, 32), np.float32), np.zeros(16, np.float32))},
        {"pieces": (np.zeros((8, 8, 4, 32)), np.zeros(32, np.float32))},
        {"strides": (0,)},
        {"strides": (4, 2)},
        {"strides": ()},
    ],
    ids=str,
)
def test_arrays_that_do_not_fit_are_refused(change):
    layer = {
        "images": np.zeros((2, 4, 40, 40), np.uint8),
        "pieces": (np.zeros((8, 8, 4, 32), np.float32), np.zeros(32, np.float32)),
        "strides": (4,),
    }
    assert convolutions(*layer.values()).shape == (2, 9 * 9 * 32)
    with pytest.raises(ValueError, match="expected contiguous arrays, images uint8"):
        convolutions(*(layer | change).values())


def test_a_call_of_xla_on_arrays_that_do_not_fit_is_an_error():
    x, weight, bias, _ = drawn(LAYERS["units"])
    with pytest.raises(Exception, match="a convolution: expected images"):
        jax.block_until_ready(convolution(x[..., :24], weight[:, :, :24], bias, 2))
