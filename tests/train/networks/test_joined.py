"""The vector of a network's pieces within compiled code: that of `pack`, and written by a call of ours."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax

from drivetrain.train.networks import MLP, length_of, pack, unpack
from drivetrain.train.networks.joined import packed

NETWORK = MLP(num_inputs=3, hidden=(5, 4), heads=(("action", 2), ("value", 1)))


def pieces(dtype="float32"):
    vector = np.arange(length_of(NETWORK), dtype=dtype)
    return dict(reversed(unpack(NETWORK, vector).items()))


def test_compiled_code_packs_a_network_as_numpy_does():
    vector = jax.jit(lambda pieces: packed(NETWORK, pieces))(pieces())
    assert vector.dtype == np.float32
    assert np.array_equal(vector, pack(NETWORK, pieces()))


def test_on_cpus_xla_concatenates_nothing():
    text = jax.jit(lambda pieces: packed(NETWORK, pieces)).lower(pieces()).compile().as_text()
    assert "drivetrain_joined" in text
    assert "concatenate(" not in text


def test_doubles_stay_doubles():
    with jax.enable_x64(True):
        vector = jax.jit(lambda pieces: packed(NETWORK, pieces))(pieces("float64"))
    assert vector.dtype == np.float64
    assert np.array_equal(vector, pack(NETWORK, pieces()))
