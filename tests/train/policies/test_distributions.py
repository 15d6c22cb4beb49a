"""Distributions over actions: probabilities by SciPy, draws by counting, NumPy equals JAX."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax.numpy as jnp
import scipy.stats

from drivetrain.train.policies.distributions import Categorical, DiagonalGaussian, MultiCategorical

RNG = np.random.default_rng(3)
LOGITS = (3 * RNG.normal(size=(6, 4))).astype(np.float32)
FACTORS = (3 * RNG.normal(size=(6, 5))).astype(np.float32)
GAUSSIAN = {
    "mean": RNG.normal(size=(6, 2)).astype(np.float32),
    "log_std": np.array([-0.5, 0.3], np.float32),
}


def softmax(logits):
    weights = np.exp(np.float64(logits))
    return weights / weights.sum(-1, keepdims=True)


def test_a_categorical_has_the_probabilities_and_entropy_of_its_softmax():
    kind, action = Categorical(4), np.array([0, 1, 2, 3, 0, 1])
    p = softmax(LOGITS)
    assert np.allclose(kind.log_prob({"logits": LOGITS}, action, np), np.log(p[np.arange(6), action]), atol=1e-5)
    assert np.allclose(kind.entropy({"logits": LOGITS}, np), scipy.stats.entropy(p, axis=-1), atol=1e-5)
    assert np.array_equal(kind.mode({"logits": LOGITS}), p.argmax(-1))


def test_several_categoricals_are_independent_of_each_other():
    kind, outputs = MultiCategorical((2, 3)), {"logits": FACTORS}
    first, second = softmax(FACTORS[:, :2]), softmax(FACTORS[:, 2:])
    action = np.stack([first.argmax(-1), second.argmin(-1)], -1)
    rows = np.arange(6)
    expected = np.log(first[rows, action[:, 0]]) + np.log(second[rows, action[:, 1]])
    assert np.allclose(kind.log_prob(outputs, action, np), expected, atol=1e-5)
    both = scipy.stats.entropy(first, axis=-1) + scipy.stats.entropy(second, axis=-1)
    assert np.allclose(kind.entropy(outputs, np), both, atol=1e-5)
    assert np.array_equal(kind.mode(outputs), np.stack([first.argmax(-1), second.argmax(-1)], -1))
    assert kind.sample(outputs, np.random.default_rng(0)).shape == (6, 2)


def test_a_diagonal_gaussian_has_the_density_and_entropy_of_independent_normals():
    kind, action = DiagonalGaussian(2), RNG.normal(size=(6, 2)).astype(np.float32)
    std = np.exp(GAUSSIAN["log_std"])
    density = scipy.stats.norm.logpdf(action, GAUSSIAN["mean"], std).sum(-1)
    assert np.allclose(kind.log_prob(GAUSSIAN, action, np), density, atol=1e-5)
    assert np.allclose(kind.entropy(GAUSSIAN, np), scipy.stats.norm.entropy(scale=std).sum(), atol=1e-5)
    assert np.array_equal(kind.mode(GAUSSIAN), GAUSSIAN["mean"])


@pytest.mark.parametrize(
    ("kind", "outputs"),
    [
        (Categorical(4), {"logits": LOGITS}),
        (MultiCategorical((2, 3)), {"logits": FACTORS}),
        (DiagonalGaussian(2), GAUSSIAN),
    ],
)
def test_learner_and_actors_agree(kind, outputs):
    action = kind.sample(outputs, np.random.default_rng(1))
    in_jax = {name: jnp.array(output) for name, output in outputs.items()}
    assert np.allclose(kind.log_prob(in_jax, jnp.array(action), jnp), kind.log_prob(outputs, action, np), atol=1e-5)
    assert np.allclose(kind.entropy(in_jax, jnp), kind.entropy(outputs, np), atol=1e-5)


def test_draws_come_as_often_as_their_probabilities_say():
    count, rng = 40_000, np.random.default_rng(7)
    drawn = Categorical(4).sample({"logits": np.repeat(LOGITS[:1], count, 0)}, rng)
    assert scipy.stats.chisquare(np.bincount(drawn, minlength=4), count * softmax(LOGITS[0])).pvalue > 1e-4
    pairs = MultiCategorical((2, 3)).sample({"logits": np.repeat(FACTORS[:1], count, 0)}, rng)
    joint = np.outer(softmax(FACTORS[0, :2]), softmax(FACTORS[0, 2:])).ravel()
    counts = np.bincount(3 * pairs[:, 0] + pairs[:, 1], minlength=6)
    assert scipy.stats.chisquare(counts, count * joint).pvalue > 1e-4
    outputs = {"mean": np.full((count, 2), 0.5, np.float32), "log_std": GAUSSIAN["log_std"]}
    normal = DiagonalGaussian(2).sample(outputs, rng)
    assert scipy.stats.kstest(normal[:, 0], scipy.stats.norm(0.5, np.exp(-0.5)).cdf).pvalue > 1e-4


def test_a_draw_that_is_rounded_to_zero_warns_of_nothing_and_lets_no_action_win_that_never_would():
    class Zero:
        def standard_exponential(self, size, dtype):
            return np.array([1, 0], dtype)

    with np.errstate(all="raise"):
        assert Categorical(2).sample({"logits": np.array([200, 0], np.float32)}, Zero()) == 0
        assert Categorical(2).sample({"logits": np.array([80, 0], np.float32)}, Zero()) == 1
