"""How a kernel becomes a shared object: what stands before its source, how wide its vectors are, and which effort the
compiler takes with it.
"""

import ctypes
import platform
from collections.abc import Sequence
from pathlib import Path

from drivetrain.sim.engines.toolchain import cpu_flags, load_library

HEADERS = ("vectors.hpp", "rare.hpp", "prelude.hpp", "layers.hpp", "memory.hpp", "rectified.hpp")
PRELUDE = tuple(Path(__file__).parent / name for name in HEADERS)
MORE_EFFORT = ("-O2", "-falign-loops=32")
"""A loop begins where a fetch of instructions does: up to 8% faster, where it happened to begin elsewhere."""
LARGE = 40_000
"""Characters of a source from which on -O1 has to do, in half the time of -O2; smaller ones compile fast enough."""


def lanes() -> int:
    """32-bit elements of this processor's widest vector."""
    flags = cpu_flags()
    return 16 if {"avx512f", "avx512dq"} <= flags else 8 if "avx2" in flags else 4


def num_registers() -> int:
    """Hardware vectors that this processor can hold at once."""
    return 32 if lanes() == 16 or platform.machine() == "aarch64" else 16


def load_kernel(source: str, num_lanes: int, effort: Sequence[str] = ()) -> ctypes.CDLL:
    """The kernel of a source, compiled now or before.

    Args:
        source: C++ without its prelude.
        num_lanes: Environments of a tile.
        effort: The compiler's flags; by the size of the source when empty.

    Raises:
        CompileError: No compiler, a source it refuses, or no place to keep the result.
    """
    whole = "\n".join([*(path.read_text() for path in PRELUDE), source])
    effort = effort or effort_for(len(source))
    return load_library(whole, (*effort, f"-DLANES={num_lanes}"))


def effort_for(num_characters: int) -> Sequence[str]:
    """The compiler's flags for the source of a step."""
    return MORE_EFFORT if num_characters < LARGE else ("-O1",)
