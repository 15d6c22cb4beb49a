"""Where arrays lie, as compiled kernels are told."""

import numpy as np
import pytest

from drivetrain.core._native import addresses


def pointers(*buffers):
    return np.frombuffer(addresses(buffers), np.uintp).tolist()


def test_addresses_are_those_that_numpy_says():
    read_only = np.arange(5.0)
    read_only.flags.writeable = False
    arrays = [np.zeros((3, 4), np.float32), np.ones(7, bool)[2:], read_only, np.array(3, np.uint32)]
    assert pointers(*arrays) == [array.ctypes.data for array in arrays]
    assert pointers() == []


def test_arrays_that_are_not_dense_have_no_address():
    with pytest.raises((ValueError, BufferError), match="contiguous"):
        pointers(np.zeros((4, 4))[:, 1])
    with pytest.raises(TypeError):
        pointers(3)
