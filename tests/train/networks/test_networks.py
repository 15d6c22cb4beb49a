"""The network: one formula for JAX and NumPy, one flat vector for its parameters."""

import gc

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax.numpy as jnp

from drivetrain.train._native import forward
from drivetrain.train.config import DQNConfig
from drivetrain.train.config.given import Given
from drivetrain.train.interface import Categories, Entries, Image, Vector
from drivetrain.train.networks import (
    MLP,
    Noisy,
    acting,
    build,
    first_twin,
    initial_twins,
    initial_vector,
    length_of,
    pack,
    unpack,
)
from drivetrain.train.networks.custom import CustomTorso
from drivetrain.train.networks.mlp import MOST_NATIVE_ROWS
from drivetrain.train.networks.patches import convolve
from drivetrain.train.policies.q_networks import q_values
from drivetrain.train.policies.stochastic import LogStd

NETWORKS = [
    MLP(num_inputs=4, hidden=(16, 8), heads=(("action", 3),)),
    MLP(num_inputs=4, hidden=(16, 8), heads=(("action", 3), ("value", 1))),
    MLP(num_inputs=5, hidden=(), heads=(("mean", 2), ("log_std", 2))),
]


def draw(network):
    rng = np.random.default_rng(0)
    return initial_vector(network, rng), rng.normal(size=(32, network.num_inputs)).astype(np.float32)


@pytest.mark.parametrize("network", NETWORKS)
def test_numpy_and_jax_give_the_same_outputs(network):
    vector, obs = draw(network)
    with_numpy = network.apply(unpack(network, vector), obs, np)
    with_jax = network.apply(unpack(network, jnp.array(vector)), jnp.array(obs), jnp)
    assert with_numpy.keys() == with_jax.keys() == dict(network.heads).keys()
    assert all(np.allclose(with_numpy[head], with_jax[head], atol=1e-5) for head in with_numpy)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_pieces_are_views_that_cover_the_vector_exactly_once(network):
    vector = np.arange(length_of(network), dtype=np.float32)
    pieces = unpack(network, vector)
    assert all(np.shares_memory(piece, vector) for piece in pieces.values())
    assert sorted(np.concatenate([piece.ravel() for piece in pieces.values()])) == vector.tolist()


def test_a_two_layer_network_worked_out_by_hand():
    network = MLP(num_inputs=2, hidden=(2,), heads=(("action", 2),))
    vector = np.array([1, -1, 0, 1, 0.5, 0, 1, 2, 3, 4, 10, 20], np.float32)
    # hidden = relu([1, 2] @ [[1, -1], [0, 1]] + [0.5, 0]) = [1.5, 1]; out = hidden @ [[1, 2], [3, 4]] + [10, 20]
    out = network.apply(unpack(network, vector), np.array([1.0, 2.0], np.float32), np)
    assert out["action"].tolist() == [14.5, 27.0]


def test_dueling_q_values_average_to_the_state_value():
    network = NETWORKS[1]
    vector, obs = draw(network)
    pieces = unpack(network, vector)
    shifted = {**pieces, "action.bias": pieces["action.bias"] + 7}  # a common advantage changes nothing
    q = q_values(network, pieces, obs, DQNConfig(), np)
    assert np.allclose(q, q_values(network, shifted, obs, DQNConfig(), np), atol=1e-5)
    raised = {**pieces, "value.bias": pieces["value.bias"] + 7}
    assert np.allclose(q + 7, q_values(network, raised, obs, DQNConfig(), np), atol=1e-5)


def test_twins_are_two_independent_networks_evaluated_together():
    network = NETWORKS[0]
    twins = initial_twins(network, np.random.default_rng(3))
    obs = draw(network)[1]
    together = network.apply(twins, obs, np)["action"]
    assert together.shape == (2, 32, 3)
    for index in range(2):
        alone = {
            name: piece[index].reshape(-1) if name.endswith("bias") else piece[index] for name, piece in twins.items()
        }
        assert np.allclose(together[index], network.apply(alone, obs, np)["action"], atol=1e-5)
    assert not np.allclose(together[0], together[1])


def test_initial_parameters_stay_within_one_over_the_root_of_the_inputs():
    network = NETWORKS[0]
    pieces = unpack(network, initial_vector(network, np.random.default_rng(2)))
    assert np.abs(pieces["hidden1.weight"]).max() <= 1 / 4
    assert np.abs(pieces["hidden1.weight"]).max() > 0.2


@pytest.mark.parametrize("network", NETWORKS)
def test_packing_the_pieces_gives_the_vector_back(network):
    vector = np.arange(length_of(network), dtype=np.float32)
    assert np.array_equal(pack(network, unpack(network, vector)), vector)


def test_orthogonal_layers_keep_the_length_of_vectors_times_their_gain():
    network = MLP(num_inputs=6, hidden=(16, 8), heads=(("logits", 3), ("value", 1)), head_gains=(0.01, 1.0))
    pieces = network.initial(np.random.default_rng(1))
    gains = {"hidden0": np.sqrt(2), "hidden1": np.sqrt(2), "logits": 0.01, "value": 1.0}
    for name, gain in gains.items():
        weight = pieces[f"{name}.weight"].astype(np.float64)
        short = weight if weight.shape[0] < weight.shape[1] else weight.T
        assert np.allclose(short @ short.T, gain**2 * np.eye(len(short)), atol=1e-6), name
        assert not pieces[f"{name}.bias"].any()


def test_tanh_layers_are_the_hyperbolic_tangent_of_the_linear_ones():
    network = MLP(num_inputs=1, hidden=(1,), heads=(("action", 1),), activation="tanh")
    vector = np.array([2, 0.5, 3, 1], np.float32)  # tanh(2 x + 0.5) * 3 + 1
    out = network.apply(unpack(network, vector), np.array([[0.25]], np.float32), np)
    assert out["action"][0, 0] == pytest.approx(3 * np.tanh(1.0) + 1)


def test_a_critic_reads_the_observation_and_then_the_action():
    network = MLP(num_inputs=5, hidden=(4,), heads=(("q", 1),))
    pieces = network.initial(np.random.default_rng(0))
    obs, action = np.ones((3, 2), np.float32), np.zeros((3, 3), np.float32)
    together = network.apply(pieces, np.concatenate([obs, action], -1), np)["q"]
    assert np.array_equal(network.apply(pieces, obs, np, action)["q"], together)


def test_categories_reach_the_network_one_hot():
    observations = Categories(counts=(2, 3), starts=(0, 5))
    network = build(observations, MLP(num_inputs=0, hidden=(), heads=(("action", 2),)))
    pieces = network.initial(np.random.default_rng(0))
    for xp in (np, jnp):
        out = network.apply(pieces, xp.array([[1, 2]], np.int32), xp)["action"][0]
        assert np.allclose(out, pieces["action.weight"][1] + pieces["action.weight"][4] + pieces["action.bias"])
    assert length_of(network) == 2 * (5 + 1)


def test_parameters_of_a_torso_of_ones_own_are_float32_whatever_numbers_its_init_gives():
    given = Given(
        "torso", (lambda key, obs: {"weight": np.ones((2, 3)), "scale": 2.0}, lambda p, obs: obs @ p["weight"])
    )
    pieces = CustomTorso(given, Vector(shape=(2,))).initial(np.random.default_rng(0), None)
    assert {name: (piece.dtype, piece.shape) for name, piece in pieces.items()} == {
        "scale": (np.float32, ()),
        "weight": (np.float32, (2, 3)),
    }


IMAGES = [
    Image(shape=(40, 44, 3), axes="HWC"),
    Image(shape=(2, 3, 41, 38), axes="KCHW"),
    Image(shape=(36, 36), axes="HW"),
]


def convolve_by_loops(x, weight, stride):
    """Cross-correlation of one image [height, width, inputs], patch by patch."""
    side = weight.shape[0]
    rows, columns = ((length - side) // stride + 1 for length in x.shape[:2])
    out = np.zeros((rows, columns, weight.shape[-1]))
    for i, j in np.ndindex(rows, columns):
        patch = x[i * stride : i * stride + side, j * stride : j * stride + side]
        out[i, j] = np.tensordot(patch, weight, 3)
    return out


@pytest.mark.parametrize(("side", "stride"), [(8, 4), (4, 2), (3, 1), (3, 2)])
def test_a_convolution_is_that_of_its_loops(side, stride):
    rng = np.random.default_rng(side)
    x, weight = rng.normal(size=(2, 19, 17, 3)), rng.normal(size=(side, side, 3, 5))
    expected = np.stack([convolve_by_loops(image, weight, stride) for image in x])
    assert np.allclose(convolve(x, weight, stride, np), expected)
    assert np.allclose(convolve(jnp.array(x), jnp.array(weight), stride, jnp), expected, atol=1e-4)


def images_of(observations, *lead):
    return np.random.default_rng(0).integers(0, 256, (*lead, *observations.shape), dtype=np.uint8)


@pytest.mark.release
@pytest.mark.parametrize("observations", IMAGES, ids=lambda image: image.axes)
def test_numpy_and_jax_see_the_same_in_images(observations):
    network = build(observations, MLP(num_inputs=0, hidden=(), heads=(("action", 3),)))
    vector = initial_vector(network, np.random.default_rng(1))
    obs = images_of(observations, 5)
    with_numpy = network.apply(unpack(network, vector), obs, np)["action"]
    with_jax = network.apply(unpack(network, jnp.array(vector)), jnp.array(obs), jnp)["action"]
    assert with_numpy.dtype == np.float32
    assert np.allclose(with_numpy, with_jax, atol=1e-5)
    in_two_axes = network.apply(unpack(network, vector), obs[None, :4].reshape(2, 2, *observations.shape), np)["action"]
    assert np.allclose(in_two_axes.reshape(4, 3), with_numpy[:4], atol=1e-5)


def test_the_axes_of_an_image_do_not_matter_to_what_is_seen():
    last, first = Image(shape=(40, 44, 3), axes="HWC"), Image(shape=(3, 40, 44), axes="CHW")
    networks = [build(image, MLP(num_inputs=0, hidden=(), heads=(("action", 3),))) for image in (last, first)]
    pieces = networks[0].initial(np.random.default_rng(1))
    obs = images_of(last, 2)
    seen = [networks[0].apply(pieces, obs, np), networks[1].apply(pieces, np.moveaxis(obs, -1, 1), np)]
    assert np.allclose(seen[0]["action"], seen[1]["action"], atol=1e-5)


def test_the_convolutional_network_has_the_layers_of_the_paper():
    network = build(Image(shape=(4, 84, 84), axes="KHW"), MLP(num_inputs=0, hidden=(), heads=(("action", 6),)))
    assert dict(network.layout)["torso.conv0.weight"] == (8, 8, 4, 32)
    assert dict(network.layout)["torso.dense.weight"] == (3136, 512)
    assert length_of(network) == 1_687_206  # as torch counts the layers of Mnih et al. 2015


def test_entries_have_a_torso_each_and_their_features_stand_in_a_row():
    image, numbers = Image(shape=(36, 36), axes="HW"), Vector(shape=(2, 2), dtype="uint8", scale=0.5)
    kinds = Categories(counts=(3,), starts=(1,))
    observations = Entries(
        entries=(("eye", image), ("body.0", numbers), ("mode", kinds)), paths=(("eye",), ("body", 0), ("mode",))
    )
    network = build(observations, MLP(num_inputs=2, hidden=(), heads=(("q", 1),)))
    pieces = network.initial(np.random.default_rng(0))
    obs = {"eye": images_of(image, 4), "body.0": np.full((4, 2, 2), 3, np.uint8), "mode": np.full((4, 1), 2, np.int32)}
    action = np.zeros((4, 2), np.float32)
    alone = build(image, MLP(num_inputs=0, hidden=(), heads=()))
    eye = {name.replace("eye:", ""): piece for name, piece in pieces.items() if "eye:" in name}
    features = alone.torso.features({name.removeprefix("torso."): piece for name, piece in eye.items()}, obs["eye"], np)
    row = np.concatenate([features, np.full((4, 4), 1.5), np.tile([0, 0, 1], (4, 1)), action], -1)
    expected = row @ pieces["q.weight"] + pieces["q.bias"]
    assert np.allclose(network.apply(pieces, obs, np, action)["q"], expected, atol=1e-5)


def test_twins_share_the_torso_and_judge_on_their_own():
    image = Image(shape=(36, 36), axes="HW")
    network = build(image, MLP(num_inputs=2, hidden=(8,), heads=(("q", 1),)))
    twins = initial_twins(network, np.random.default_rng(0))
    obs, action = images_of(image, 3), np.zeros((3, 2), np.float32)
    q = network.apply(twins, obs, np, action)["q"]
    assert q.shape == (2, 3, 1)
    assert not np.allclose(q[0], q[1])
    assert np.allclose(network.apply(first_twin(twins), obs, np, action)["q"][0], q[0], atol=1e-6)


ACTORS = {
    "a vector": build(Vector(shape=(4,)), MLP(num_inputs=0, hidden=(16, 8), heads=(("action", 3), ("value", 1)))),
    "tanh": build(Vector(shape=(4,)), MLP(num_inputs=0, hidden=(9,), heads=(("mean", 2),), activation="tanh")),
    "no hidden layer": build(Vector(shape=(4,)), MLP(num_inputs=0, hidden=(), heads=(("mean", 2),))),
    "bytes": build(Vector(shape=(4,), dtype="uint8", scale=1 / 255), MLP(num_inputs=0, hidden=(7,), heads=(("a", 3),))),
    "a vector beside": LogStd(MLP(num_inputs=4, hidden=(8,), heads=(("mean", 2),)), 2, 0.5),
    "noisy": Noisy(
        inner=MLP(num_inputs=4, hidden=(8,), heads=(("action", 2),)),
        layers=(("hidden0", 4, 8), ("action", 8, 2)),
        sigma=0.5,
    ),
}


@pytest.mark.parametrize("network", ACTORS.values(), ids=ACTORS)
@pytest.mark.parametrize("rows", [1, *MOST_NATIVE_ROWS.values(), *(most + 1 for most in MOST_NATIVE_ROWS.values())])
def test_an_actor_s_network_gives_what_the_network_gives(network, rows):
    rng = np.random.default_rng(4)
    pieces = unpack(network, initial_vector(network, rng))
    obs = rng.integers(-4 * (network is not ACTORS["bytes"]), 4, (rows, 4)).astype(
        np.uint8 if network is ACTORS["bytes"] else np.float32
    )
    outputs, expected = acting(network).apply(pieces, obs, np), network.apply(pieces, obs, np)
    assert outputs.keys() == expected.keys()
    for head, wanted in expected.items():
        assert outputs[head].dtype == np.float32
        assert outputs[head].shape == wanted.shape
        np.testing.assert_allclose(outputs[head], wanted, rtol=1e-5, atol=1e-5)


def test_what_an_actor_s_network_gives_for_a_row_does_not_depend_on_the_other_rows():
    network = acting(NETWORKS[0])
    vector, obs = draw(network)
    pieces = unpack(network, vector)
    assert len(obs) <= MOST_NATIVE_ROWS["relu"]
    together = network.apply(pieces, obs, np)["action"]
    alone = [network.apply(pieces, obs[row : row + 1], np)["action"][0] for row in range(len(obs))]
    assert np.array_equal(together, alone)


def test_an_actor_s_network_says_what_arrays_it_takes():
    network = acting(NETWORKS[0])
    vector, obs = draw(network)
    pieces = unpack(network, vector)
    for wrong in ({"hidden1.weight": np.zeros((3, 8), np.float32)}, {"action.bias": np.zeros(3)}):
        with pytest.raises(ValueError, match=r"expected contiguous float32 arrays .* for each layer"):
            network.apply({**pieces, **wrong}, obs[:1], np)


def test_garbage_that_is_collected_in_the_call_may_evaluate_another_network():
    """The call makes a tuple, for which Python 3.11 collects garbage then and there."""
    rng, pieces = np.random.default_rng(0), []
    for width in (8, 16):
        shapes = [(3, width), (width,), *[(width, 2), (2,)] * 7]
        pieces.append(tuple(rng.normal(size=shape).astype(np.float32) for shape in shapes))
    obs = rng.normal(size=(2, 3)).astype(np.float32)
    mine, other = (forward(obs, each, 1, True, False) for each in pieces)
    found = []

    class Garbage:
        def __init__(self):
            self.itself = self

        def __del__(self):
            found.append(forward(obs, pieces[1], 1, True, False))

    threshold = gc.get_threshold()
    gc.collect()  # forgets the tuples that Python would use again
    try:
        gc.disable()
        Garbage()
        gc.set_threshold(1)
        gc.enable()
        during = forward(obs, pieces[0], 1, True, False)
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
    gc.collect()  # where it was not collected in the call, as by later versions of Python
    for given, expected in ((during, mine), (found[0], other)):
        assert all(np.array_equal(a, b) for a, b in zip(given, expected, strict=True))
