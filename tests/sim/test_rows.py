"""Rows go from lanes to memory and back whole: every type, size and width, full tiles and broken ones."""

import jax.numpy as jnp
import numpy as np
import pytest
from comparing import applied

from drivetrain.sim.engines.native import engine as native

pytestmark = pytest.mark.usefixtures("compiled_as_large_ones")

SIZES = (1, 3, 5, 8, 33, 65, 100)
DTYPES = ("bool", "int8", "uint16", "float32")


@pytest.mark.release
@pytest.mark.parametrize("lanes", [4, 8, pytest.param(16, marks=pytest.mark.slow)])
def test_arrays_of_every_type_and_size_are_written_whole(lanes, monkeypatch):
    monkeypatch.setattr(native, "lanes", lambda: lanes)
    rng = np.random.default_rng(0)
    batch = rng.integers(-(2**31), 2**31, (19, 128)).astype(np.int32)

    def parts(x):
        return {f"{dtype} {size}": (x[3 : 3 + size] >> 3).astype(dtype) for dtype in DTYPES for size in SIZES}

    got = applied(parts, batch)
    for name, array in got.items():
        dtype, size = name.split()
        expected = np.asarray((jnp.asarray(batch)[:, 3 : 3 + int(size)] >> 3).astype(dtype))
        assert array.dtype == expected.dtype
        np.testing.assert_array_equal(array, expected, err_msg=name)


@pytest.mark.release
@pytest.mark.parametrize("lanes", [4, 8, pytest.param(16, marks=pytest.mark.slow)])
def test_rows_are_read_whole(lanes, monkeypatch):
    monkeypatch.setattr(native, "lanes", lambda: lanes)
    rng = np.random.default_rng(1)
    for size in (2, 8, 13, 64, 71):
        floats = rng.normal(size=(19, size)).astype(np.float32)
        flags = rng.random((19, size)) < 0.5
        bytes_ = rng.integers(0, 256, (19, size)).astype(np.uint8)
        got = applied(lambda a, b, c: (a + 1, ~b, c + jnp.uint8(1)), floats, flags, bytes_)
        for x, y in zip(got, (floats + 1, ~flags, bytes_ + np.uint8(1)), strict=True):
            np.testing.assert_array_equal(x, y)


def test_a_table_that_is_recorded_is_written():
    table = np.arange(100, dtype=np.int32) * 3
    got = applied(lambda x: (jnp.asarray(table), x), np.zeros(9, np.float32))
    np.testing.assert_array_equal(got[0], np.tile(table, (9, 1)))


def test_a_grid_that_is_reshaped_and_summed_needs_no_memory_of_its_own():
    rng = np.random.default_rng(2)
    grids = rng.integers(0, 3, (19, 10, 10)).astype(np.float32)
    got = applied(lambda x: (jnp.sum(x != 0), jnp.count_nonzero((x * 2).reshape(4, 25) > 2, axis=1)), grids)
    np.testing.assert_array_equal(got[0], (grids != 0).sum(axis=(1, 2)))
    np.testing.assert_array_equal(got[1], ((grids * 2).reshape(19, 4, 25) > 2).sum(axis=2))
