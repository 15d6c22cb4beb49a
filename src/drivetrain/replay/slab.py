"""One piece of memory for all arrays of a sample, each on a cache line of its own.

Frameworks take arrays without copying them if they like where they begin: JAX asks for 64 bytes, and
a GPU copies fast from pages that are locked.
"""

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.core.extras import naming_extra
from drivetrain.core.segments import refused_memory

_LINE = 64

Shape = tuple[int, ...]


def arrays_in_slab(wanted: Sequence[tuple[np.dtype[Any], Shape]], *, pinned: bool) -> list[npt.NDArray[Any]]:
    """Uninitialised arrays of these dtypes and shapes, 64-byte aligned, in one piece of memory.

    Args:
        wanted: A dtype and a shape for each.
        pinned: Take page-locked memory, from PyTorch.

    Raises:
        MissingExtra: `pinned`, and PyTorch is not installed.
        InvalidInput: `pinned`, and PyTorch finds no CUDA device.
        SegmentError: The system does not give the memory.
    """
    sizes = [math.prod(shape) * dtype.itemsize for dtype, shape in wanted]
    starts = np.cumsum([0] + [-(-size // _LINE) * _LINE for size in sizes]).tolist()
    nbytes = starts[-1] + _LINE
    with refused_memory("the arrays of a sample", nbytes):
        slab = _pinned(nbytes) if pinned else np.empty(nbytes, np.uint8)
    first = -slab.ctypes.data % _LINE
    return [
        slab[first + start : first + start + size].view(dtype).reshape(shape)
        for (dtype, shape), start, size in zip(wanted, starts, sizes, strict=False)
    ]


def _pinned(nbytes: int) -> npt.NDArray[np.uint8]:
    # The one place where the replay asks for a framework, and by name: importing the replay brings none.
    with naming_extra():
        torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise InvalidInput(
            "pinned=True: PyTorch finds no CUDA device, and page-locked memory is for copies to one; "
            "use pinned=False, or install a build of PyTorch for the GPU"
        )
    return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).numpy()
