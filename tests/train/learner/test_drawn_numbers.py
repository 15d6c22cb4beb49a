"""The numbers that updates draw, against JAX's own Threefry and the standard library's normal distribution."""

from statistics import NormalDist

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy
import jax.extend  # noqa: E402

from drivetrain.train.learner import noise  # noqa: E402

KEY = jax.random.key(3)
WORDS = tuple(jax.random.key_data(KEY))


@pytest.mark.parametrize("number", [0, 1, 77, 2**31 - 1])
def test_the_key_of_an_update_is_that_of_fold_in(number):
    ours = np.array(noise.key_of_update(jax.random.key_data(KEY), jnp.int32(number)))
    assert (ours == np.asarray(jax.random.key_data(jax.random.fold_in(KEY, number)))).all()


@pytest.mark.release
def test_numbers_are_the_normal_distributions_quantiles_of_jaxs_bits():
    numbers = np.asarray(noise.standard_normal(WORDS, (5, 3)))
    for row, place in np.ndindex(5, 3):
        counter = jnp.array([row, place // 2], jnp.uint32)
        word = int(jax.extend.random.threefry_2x32(jax.random.key_data(KEY), counter)[place % 2])
        quantile = NormalDist().inv_cdf((word >> 9) / 2**23 + 2**-24)
        assert numbers[row, place] == pytest.approx(quantile, rel=2e-6, abs=2e-7)


@pytest.mark.release
def test_every_23_bits_have_a_finite_number_and_their_mirror_image_its_negative():
    words = jnp.concatenate(
        [jnp.arange(4096, dtype=jnp.uint32), jnp.uint32(2**22) + jnp.arange(-64, 64).astype("uint32")]
    )
    up, down = (np.asarray(noise._inverse_error(noise._between_ones(x << 9))) for x in (words, 2**23 - 1 - words))
    assert np.isfinite(up).all()
    assert (up == -down).all()
    exact = [NormalDist().inv_cdf((int(word) + 0.5) / 2**23) / np.sqrt(2) for word in words]
    np.testing.assert_allclose(up, exact, rtol=2e-6, atol=1e-7)


@pytest.mark.release
def test_a_rows_numbers_do_not_depend_on_who_draws_them():
    whole = noise.standard_normal(WORDS, (8, 2, 3))
    parts = [noise.standard_normal(WORDS, (4, 2, 3), first) for first in (0, jnp.int32(4))]
    assert (np.concatenate(parts) == np.asarray(whole)).all()


@pytest.mark.whole
def test_rows_places_and_updates_are_independent_and_standard_normal():
    keys = [noise.key_of_update(WORDS, jnp.int32(number)) for number in range(4)]
    numbers = np.stack([noise.standard_normal(key, (2_000, 6)) for key in keys]).astype(np.float64)
    for power, moment, tolerance in ((1, 0, 0.02), (2, 1, 0.02), (3, 0, 0.08), (4, 3, 0.2)):
        assert (numbers**power).mean() == pytest.approx(moment, abs=tolerance)
    columns = numbers.transpose(0, 2, 1).reshape(24, 2_000)
    assert np.abs(np.corrcoef(columns) - np.eye(24)).max() < 0.1
    assert len(np.unique(numbers)) > 0.99 * numbers.size


@pytest.mark.release
def test_shapes_without_or_with_odd_rows_are_drawn():
    assert noise.standard_normal(WORDS, (3,)).shape == (3,)
    assert noise.standard_normal(WORDS, (2, 0)).shape == (2, 0)
    assert noise.standard_normal(WORDS, (2, 1, 5)).dtype == jnp.float32
