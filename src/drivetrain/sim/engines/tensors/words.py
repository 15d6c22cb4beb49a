"""Arrays of the representation as tensors: every integer in 32 bits.

PyTorch computes little with unsigned integers, so uint32 is held as the int32 of the same bits, and narrow
integers as int32 wrapped to their range. Booleans are torch.bool. What differs between signed and unsigned
(order, division, shifts to the right, conversion to floats) asks for the type.
"""

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

# By name, so that types are checked without PyTorch, which is an extra.
torch: Any = importlib.import_module("torch")
Tensor = Any

WIDTHS = {"int8": 8, "int16": 16, "uint8": 8, "uint16": 16}
LOWEST = -(2**31)
ALL_BITS = 2**32 - 1


def tensor_of(array: npt.NDArray[Any]) -> Tensor:
    """An array as a tensor of its own."""
    if array.dtype == np.uint32:
        array = array.view(np.int32)
    elif array.dtype.kind in "iu":
        array = array.astype(np.int32)
    return torch.tensor(array)


def array_of(tensor: Tensor, dtype: str) -> npt.NDArray[Any]:
    """The array that a tensor of `tensor_of` stands for."""
    array = tensor.detach().numpy()
    return array.view(np.uint32) if dtype == "uint32" else array.astype(dtype, copy=False)


def is_integer(dtype: str) -> bool:
    """Whether values of a type are held as words."""
    return dtype not in ("bool", "float32")


def wrapped(x: Tensor, dtype: str) -> Tensor:
    """A word cut to the width of a narrow type; of int64, its lowest 32 bits."""
    if x.dtype == torch.int64:
        x = x.to(torch.int32)
    if dtype not in WIDTHS:
        return x
    if dtype.startswith("u"):
        return x & (2 ** WIDTHS[dtype] - 1)
    shift = 32 - WIDTHS[dtype]
    return (x << shift) >> shift


def wide(x: Tensor, dtype: str) -> Tensor:
    """The numbers that words stand for, as int64."""
    return x.to(torch.int64) & ALL_BITS if dtype == "uint32" else x.to(torch.int64)


def ordered(x: Tensor, dtype: str) -> Tensor:
    """Words, or Booleans, in the order of the numbers that they stand for."""
    if dtype == "uint32":
        return x ^ LOWEST
    return x.to(torch.int32) if dtype == "bool" else x


def shifted_right(x: Tensor, distance: int) -> Tensor:
    """Bits of int32 words moved to the right by 1 to 31, with zeros behind them."""
    return (x >> distance) & (2 ** (32 - distance) - 1)
