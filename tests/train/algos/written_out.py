"""Batches, networks of continuous control in float64 NumPy, and what a call of updates does, for the tests."""

from functools import partial

import jax
import numpy as np
import pytest

from drivetrain.train.interface import BoxActions, Interface, Vector
from drivetrain.train.learner.sharing import ONE_LEARNER
from drivetrain.train.learner.updates import Batch, Seldom, compile_updates

BATCH, INPUTS, ACTIONS = 5, 3, 2
INTERFACE = Interface(
    observations=Vector(shape=(INPUTS,)),
    actions=BoxActions(low=(-1.0, -1.0), high=(1.0, 1.0), shape=(2,), dtype="float32"),
)


def make_batch(seed, *lead):
    """Random transitions with leading axes [*lead, BATCH]."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.normal(size=(*lead, BATCH, *shape)).astype(np.float32)

    discount = rng.choice([0.0, 0.97], (*lead, BATCH)).astype(np.float32)
    weights = rng.uniform(0.2, 1.0, (*lead, BATCH)).astype(np.float32)
    return Batch(normal(INPUTS), np.tanh(normal(ACTIONS)), 3 * normal(), normal(INPUTS), discount, weights)


def discrete_batch(seed, *lead):
    """The same, with numbers of actions."""
    action = np.random.default_rng(seed).integers(0, ACTIONS, (*lead, BATCH))
    return make_batch(seed, *lead)._replace(action=action)


def to_numpy(pieces):
    """Pieces in float64, to be changed at will."""
    return {name: np.array(piece, np.float64) for name, piece in pieces.items()}


def layer(pieces, name, x):
    """One dense layer."""
    return x @ pieces[f"{name}.weight"] + pieces[f"{name}.bias"]


def hidden(pieces, x):
    """The only hidden layer."""
    return np.maximum(layer(pieces, "hidden0", np.asarray(x, np.float64)), 0)


def q_of(pieces, obs, action):
    """Q of one critic: [BATCH]."""
    return layer(pieces, "q", hidden(pieces, np.concatenate([obs, action], -1)))[:, 0]


def twin(pieces, index):
    """One critic of two stacked ones."""
    return {name: piece[index].reshape(-1) if name.endswith("bias") else piece[index] for name, piece in pieces.items()}


def finite_differences(loss, pieces, step=1e-6):
    """The gradient of loss(pieces), number by number; `pieces` in float64."""
    slopes = {name: np.zeros_like(piece) for name, piece in pieces.items()}
    for name, piece in pieces.items():
        for index in np.ndindex(piece.shape):
            kept = piece[index]
            piece[index] = kept + step
            above = loss(pieces)
            piece[index] = kept - step
            slopes[name][index] = (above - loss(pieces)) / (2 * step)
            piece[index] = kept
    return slopes


def assert_close(slopes, expected, atol=2e-4):
    """Compare gradients piece by piece."""
    assert slopes.keys() == expected.keys()
    for name in expected:
        assert np.allclose(slopes[name], expected[name], atol=atol), name


def assert_one_call_equals_single_updates(algorithm, count, padded, make=make_batch):
    """That a call of `count` updates, of a length of `count + padded`, does what as many calls of one do."""
    batches = make(6, count + padded)
    used = jax.tree.map(lambda x: np.concatenate([x[:count], np.zeros_like(x[count:])]), batches)
    single = jax.jit(partial(algorithm.update, learners=ONE_LEARNER))
    expected, errors, told = algorithm.init(np.random.default_rng(3)), [], []
    for index in range(count):
        expected, td_errors, each = single(expected, jax.tree.map(lambda x, i=index: x[i], batches))
        errors.append(td_errors)
        told.append(each)
    fresh = algorithm.init(np.random.default_rng(3))
    state, all_errors, metrics, policy = compile_updates(algorithm)(fresh, used, np.int32(count))
    np.testing.assert_allclose(all_errors[:count], errors, atol=1e-4)
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, atol=1e-4), state, expected))
    assert int(state.num_updates) == count
    for name, mean in metrics.items():
        if not isinstance(mean, Seldom):
            assert float(mean) == pytest.approx(np.mean([each[name] for each in told]), rel=1e-3, abs=1e-4), name
    np.testing.assert_array_equal(policy, algorithm.policy(state))
