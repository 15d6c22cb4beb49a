"""The handlers that XLA calls, compiled against the headers of the jaxlib at hand, and their table of kernels."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false

import ctypes
import functools
from pathlib import Path
from typing import Any

import jax

from drivetrain.sim.engines.toolchain import load_library

FLAGS = ("-O1", "-DNDEBUG")
HERE = Path(__file__).parent


@functools.cache
def handlers(source: str, target: str, platform: str) -> ctypes.CDLL:
    """The shared object of one handler, known to XLA from now on.

    Args:
        source: Its file, beside this one.
        target: Its symbol, and what programs call it.
        platform: In XLA's words: "cpu" or "CUDA".

    Raises:
        CompileError: There is no C++ compiler, or no place to keep the result.
    """
    text = "\n".join((HERE / name).read_text() for name in ("table.hpp", source))
    library = load_library(text, FLAGS, Path(jax.ffi.include_dir()))
    library.drivetrain_enter.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    library.drivetrain_enter.restype = None
    jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(library[target]), platform=platform)
    return library


def enter(library: ctypes.CDLL, digest: str, kernel: Any) -> None:
    """Put a kernel of this process, a function or its address, into a handler's table; it has to stay loaded."""
    library.drivetrain_enter(digest.encode(), kernel)
