"""Our Adam against optax's, and its call on CPUs against operations of XLA's."""

import re

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp
import optax

from drivetrain.train.learner import optimizers
from drivetrain.train.learner.optimizers import _stepped, adam, global_norm
from drivetrain.train.learner.sharing import ONE_LEARNER, WHOLE, Joined, compiled
from drivetrain.train.native_calls import ADAM, call_in_place

SHAPES = {"a": (3, 4), "b": (5,), "c": (40, 67), "d": (), "e": (0, 3)}


def gradients(seed, scale, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return {name: jnp.asarray(scale * rng.normal(size=shape), dtype) for name, shape in SHAPES.items()}


def close(a, b, rtol=1e-4, atol=1e-6):
    return jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, rtol=rtol, atol=atol), a, b))


@pytest.mark.release
@pytest.mark.parametrize("max_norm", [None, 20.0, 1e6])
def test_adam_steps_as_optax_does_over_many_updates(max_norm):
    ours = adam(1e-2, 1e-5, max_norm)
    clip = optax.identity() if max_norm is None else optax.clip_by_global_norm(max_norm)
    theirs = optax.chain(clip, optax.adam(1e-2, eps=1e-5))
    params = [gradients(0, 1.0), gradients(0, 1.0)]
    states = [ours.init(params[0]), theirs.init(params[1])]
    norms = []
    for step in range(1, 40):
        slopes = gradients(step, 0.1 * step)  # below and above the limit
        params[0], states[0], norm = ours.step(slopes, states[0], params[0])
        changes, states[1] = theirs.update(slopes, states[1])
        params[1] = optax.apply_updates(params[1], changes)
        assert close(*params)
        assert np.isclose(norm, np.sqrt(sum((leaf**2).sum() for leaf in slopes.values())), rtol=1e-5)
        norms.append(float(norm))
    assert max_norm in (None, 1e6) or min(norms) < max_norm < max(norms)


def test_a_longer_gradient_beyond_the_limit_gives_the_same_step():
    optimizer = adam(1e-2, 1e-8, 1e-3)
    params = gradients(0, 1.0)
    moved = [optimizer.step(gradients(1, scale), optimizer.init(params), params)[0] for scale in (10.0, 10_000.0)]
    assert close(*moved)


@pytest.mark.parametrize("scale", [1e-22, 1e17, 1e18, 1e25])
@pytest.mark.parametrize("is_called", [True, False], ids=["by the call", "by XLA"])
def test_gradients_whose_squares_no_float_holds_are_scaled_before_they_are_squared(scale, is_called, monkeypatch):
    if not is_called:
        monkeypatch.setattr(optimizers, "call_in_place", lambda target, count, otherwise, *arrays: otherwise(*arrays))
    slopes, params, max_norm = {"a": jnp.full(20, scale)}, {"a": jnp.ones(20)}, min(1.0, 1e3 * scale)
    ours, clip = adam(1e-2, 1e-5, max_norm), optax.clip_by_global_norm(max_norm)
    moved, state, _ = ours.step(slopes, ours.init(params), params)
    clipped, _ = clip.update(slopes, clip.init(params))
    assert close(state.second["a"], 0.001 * clipped["a"] ** 2, atol=0.0)
    theirs = optax.adam(1e-2, eps=1e-5)
    changes, _ = theirs.update(clipped, theirs.init(params))
    assert close(moved, optax.apply_updates(params, changes))


@pytest.mark.whole
@pytest.mark.parametrize("max_norm", [np.inf, 3.0])
def test_the_call_on_cpus_steps_as_xlas_operations_do_also_from_one_vector(max_norm):
    factors = jnp.array([0.9, 0.07, 0.999, 0.0004, -0.01, 1.7, 1e-5, max_norm], jnp.float32)
    trees = [jax.tree.leaves(gradients(seed, 1.0)) for seed in range(4)]
    trees[2] = [abs(leaf) for leaf in trees[2]]
    vector = jnp.concatenate([*(leaf.ravel() for leaf in trees[0]), jnp.full(3, 7.0)])  # and something behind it

    def otherwise(*arrays):
        return _stepped(len(SHAPES), *arrays)

    for slopes in (trees[0], [vector]):
        arrays = [factors, *slopes, *(leaf for tree in trees[1:] for leaf in tree)]
        found = jax.jit(lambda *arrays: call_in_place(ADAM, 1 + len(slopes), otherwise, *arrays))(*arrays)  # noqa: B023
        assert close(found, otherwise(*arrays), rtol=1e-5)


def test_gradients_that_are_joined_step_as_the_tree_they_are():
    optimizer, params, slopes = adam(1e-2, 1e-8), gradients(0, 1.0), gradients(1, 1.0)
    vector = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(slopes)])
    given = slopes, Joined(vector, slopes)
    steps = [optimizer.step(gradient, optimizer.init(params), params) for gradient in given]
    assert close(*steps, rtol=1e-6)


@pytest.mark.release
def test_float64_is_stepped_in_float64():
    with jax.enable_x64(True):
        optimizer, params = adam(1e-2, 1e-8), gradients(0, 1.0, np.float64)
        moved, state, _ = optimizer.step(gradients(1, 1.0, np.float64), optimizer.init(params), params)
        assert {leaf.dtype for leaf in jax.tree.leaves((moved, state.first))} == {np.dtype(np.float64)}
        theirs = optax.adam(1e-2, eps=1e-8)
        changes, _ = theirs.update(gradients(1, 1.0, np.float64), theirs.init(params))
        assert close(moved, optax.apply_updates(params, changes), atol=1e-8)


def test_a_gradient_that_is_no_number_leaves_none():
    optimizer, params = adam(1e-2, 1e-8), {"a": jnp.ones(20)}
    slopes = {"a": jnp.ones(20).at[3].set(np.nan)}
    moved, _, norm = optimizer.step(slopes, optimizer.init(params), params)
    assert np.flatnonzero(np.isnan(moved["a"])).tolist() == [3]
    assert np.isnan(norm)


def test_what_is_stepped_in_a_loop_is_not_copied():
    optimizer = adam(1e-3, 1e-8)

    def updates(state, targets):
        def body(state, target):
            params, moments = state
            graded = jax.grad(lambda params: ((jnp.tanh(params["w"] @ params["w"]) - target) ** 2).sum())
            params, moments, norm = optimizer.step(graded(params), moments, params)
            return (params, moments), norm

        return jax.lax.scan(body, state, targets)

    params = {"w": jnp.ones((64, 64))}
    text = _program(updates, (params, optimizer.init(params)), jnp.ones((4, 64, 64)))
    (given,) = re.findall(rf"custom-call\(([^)]*)\), custom_call_target=\"{ADAM}\"", text)
    names = [name.split("%")[-1] for name in given.split(", ")]
    assert len(names) == 5
    assert not [name for name in names[2:] if name.startswith("copy")], given


def _program(function, *arguments):
    return compiled(function, ONE_LEARNER, (WHOLE, WHOLE), (WHOLE, WHOLE)).lower(*arguments).compile().as_text()


@pytest.mark.parametrize("wrong", ["factors", "a piece", "a kind", "a short vector"])
def test_what_does_not_fit_is_refused(wrong):
    piece = jnp.ones(6)
    factors, slopes, changed = jnp.ones(8), [piece], [piece, piece, piece]
    if wrong == "factors":
        factors = jnp.ones(7)
    elif wrong == "a piece":
        changed[1] = jnp.ones(5)
    elif wrong == "a kind":
        slopes = [piece.astype(jnp.int32)]
    else:
        slopes = [jnp.ones(5)]
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"adam: expected float32: factors \[7\] and the largest norm"):
        jax.jit(lambda *arrays: call_in_place(ADAM, 2, lambda *a: [*a[2:], 0.0], *arrays))(factors, *slopes, *changed)


def test_the_global_norm_is_that_of_all_numbers_together():
    assert float(global_norm({"a": jnp.array([3.0]), "b": jnp.array([[0.0, 4.0]])})) == 5.0
