"""Records of GPUs are arrays of one length, with the types that are written beside their names."""

import numpy as np
import pytest

from drivetrain.scope.trace import gpu


def test_columns_that_are_left_out_are_zero_and_all_have_their_own_types():
    rows = gpu.GpuActivity.of(begin_ns=[10, 20], end_ns=[15, 30], kind=[gpu.KERNEL, gpu.COPY])
    assert len(rows) == 2
    assert rows.device.tolist() == [0, 0]
    assert {name: getattr(rows, name).dtype for name in rows.dtypes()} == {
        name: np.dtype(kind) for name, kind in rows.dtypes().items()
    }
    assert rows.dtypes()["correlation"] is np.uint32


def test_some_rows_in_another_order_are_rows_again():
    rows = gpu.GpuApi.of(begin_ns=[1, 2, 3], external=[7, 8, 9])
    assert rows.where(np.array([2, 0])).external.tolist() == [9, 7]
    assert len(rows.where(rows.begin_ns > 1)) == 2


def test_a_column_that_is_none_is_refused():
    with pytest.raises(TypeError, match="speed"):
        gpu.GpuReading.of(time_ns=[1], speed=[2])
