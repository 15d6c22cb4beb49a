"""Memory of trajectories that nobody holds any more, taken for the next ones.

What a call of a rollout returns is the caller's alone, as long as the caller wants it. A system gives large arrays as
pages that it clears at the first touch, and takes them back with the last reference: that was a third of a call of a
short step. A rollout therefore keeps what it has given, and gives it again when no other reference to it is left: every
view of an array, and whoever took it by DLPack or the buffer protocol, holds one.
"""

import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import describe
from drivetrain.sim.engines.arrays import Form, checked_array

Array = npt.NDArray[Any]

ALIGNMENT = 64
"""Bytes, of arrays that JAX takes where they are, by DLPack."""
LEAST_NBYTES = 65536
"""Where a copy takes as long as finding an aligned place, some microseconds; smaller arrays are NumPy's own."""
CALLS_KEPT = 2
"""A learner reads one trajectory while the next is made."""


def num_references(kept: list[Array], place: int) -> int:
    """To an array in a list, of which interpreters count more or fewer of their own."""
    return sys.getrefcount(kept[place])


ONLY_KEPT = num_references([np.empty(0, np.uint8)], 0)
"""Where nobody but the list holds the array."""


class Recycled:
    """Memory of one kernel's calls; several threads may call at the same time."""

    def __init__(self, num_arrays: int) -> None:
        """Nothing is kept yet; at most what CALLS_KEPT calls have given, of so many arrays each."""
        self.most = CALLS_KEPT * num_arrays
        self.kept: list[Array] = []
        self.lock = threading.Lock()

    taken = staticmethod(checked_array)

    def empty(self, form: Form) -> Array:
        """See `Memory`; a large array is aligned, and lies where one of its size lay."""
        _, shape, dtype, nbytes = form
        if nbytes < LEAST_NBYTES:
            return np.empty(shape, dtype)
        try:
            whole = self.whole(nbytes + ALIGNMENT - 1)
        except MemoryError as error:
            raise InvalidInput(
                f"a call gives {describe(form)}, and there is no memory for {nbytes} bytes: "
                "take fewer steps or environments per call, record less, or give narrow_obs"
            ) from error
        return np.ndarray(shape, dtype, whole, -whole.ctypes.data % ALIGNMENT)

    def whole(self, nbytes: int) -> Array:
        """Memory that nobody holds: kept, or new."""
        with self.lock:
            for k in range(len(self.kept)):
                if self.kept[k].nbytes == nbytes and num_references(self.kept, k) == ONLY_KEPT:
                    return self.kept[k]
            new = np.empty(nbytes, np.uint8)
            if len(self.kept) < self.most:
                self.kept.append(new)
            return new
