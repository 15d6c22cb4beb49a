"""Many rows are taken some at a time, and nothing but rounding changes."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp

from drivetrain.train.learner import parts


@pytest.mark.parametrize(
    ("num_rows", "num_parts"), [(8, 1), (256, 1), (257, 1), (300, 2), (512, 2), (768, 3), (8_192, 32), (2 * 263, 1)]
)
def test_rows_are_taken_in_equal_parts_that_stay_in_the_caches(num_rows, num_parts):
    assert parts.parts_of(num_rows) == num_parts
    assert num_rows % num_parts == 0


def test_on_gpus_all_rows_are_taken_at_once(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert parts.parts_of(8_192) == 1


@pytest.mark.parametrize("num_rows", [100, 512, 1_000])
def test_a_mean_over_parts_is_that_over_all_rows_whatever_the_tree(num_rows):
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=(num_rows, 3)), "of": (rng.normal(size=num_rows),)}

    def slopes(rows):
        return {"by w": (rows["x"] * rows["of"][0][:, None]).mean(0), "square": jnp.square(rows["x"]).mean()}

    with jax.enable_x64():
        got = jax.jit(lambda rows: parts.mean(slopes, rows))(rows)
        expected = slopes(rows)
    for name in expected:
        assert got[name].dtype == np.float64
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-12)


def test_what_is_worked_out_for_each_row_stands_in_the_order_of_the_rows():
    rows = (np.arange(1_024, dtype=np.float32), np.ones((1_024, 2), np.float32))
    doubled, kept = jax.jit(lambda rows: parts.mapped(lambda part: (2 * part[0], part[1]), rows))(rows)
    np.testing.assert_array_equal(doubled, 2 * rows[0])
    np.testing.assert_array_equal(kept, rows[1])


def test_one_number_that_is_none_shows_in_the_mean():
    rows = np.ones((1_024, 2), np.float32)
    rows[700, 1] = np.nan
    got = np.asarray(parts.mean(lambda part: part.mean(0), rows))
    assert got[0] == 1
    assert np.isnan(got[1])
