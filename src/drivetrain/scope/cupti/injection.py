"""How a process of a profiled program comes to record its GPU work. Imported by each of them: so it is small.

The CUDA driver loads the library that CUDA_INJECTION64_PATH names when a process initialises CUDA. So recording starts
before any context, in every process that uses a GPU, and in no other.
"""

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from drivetrain.core.errors import InvalidInput
from drivetrain.scope import _native

VARIABLE = "DRIVETRAIN_SCOPE_GPU"
"""The layer; empty where GPUs are not to be recorded."""
INJECTION_VARIABLE = "CUDA_INJECTION64_PATH"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What `drivetrain profile` does about GPUs."""

    environment: Mapping[str, str] = field(default_factory=lambda: {VARIABLE: ""})
    """For the program."""
    note: str = ""
    """Why there is a GPU and it will not be recorded; empty where that is not so."""
    takes_readings: bool = False
    """Whether NVML is sampled beside the program."""


def attach() -> None:
    """In a process of the program that records by now: tell the layer where records go.

    Raises:
        InvalidInput: The layer cannot be loaded, or is of another version than the recorder.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return
    try:
        layer = ctypes.CDLL(path)
    except OSError as error:
        raise InvalidInput(f"{error}; remove the file, and the next run compiles it again") from error
    layer.drivetrain_gpu_attach.argtypes = [ctypes.c_void_p]
    if layer.drivetrain_gpu_attach(_native.gpu_sink()) != 1:
        raise InvalidInput(f"{path}: expected records of version {_native.GPU_RECORD_VERSION}, got another; remove it")
