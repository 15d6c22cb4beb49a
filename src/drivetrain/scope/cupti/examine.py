"""What of GPU recording is here and what is missing, for `drivetrain doctor`."""

import ctypes
import os
from pathlib import Path
from typing import NamedTuple

from drivetrain.core.compilers import find_cxx
from drivetrain.scope.cupti import build, headers

DRIVER_SETTINGS = Path("/proc/driver/nvidia/params")


class Examined(NamedTuple):
    """One finding for each part, and what would mend the first that is missing."""

    found: list[str]
    remedy: str
    """Empty where nothing is missing."""


def examine() -> Examined:
    """Look for headers, library, compiler, driver and permission; nothing is compiled or initialised."""
    cupti = headers.find()
    found: list[str] = []
    remedies: list[str] = []

    def note(is_there: bool, present: str, absent: str, remedy: str) -> None:
        found.append(present if is_there else absent)
        if not is_there:
            remedies.append(remedy)

    if cupti is None:
        note(False, "", "no CUPTI headers", build.REMEDY)
    else:
        note(True, f"CUPTI headers {cupti.version}", "", "")
        note(_loads(cupti.library), "libcupti loads", f"{cupti.library} does not load", build.REMEDY)
    note(find_cxx() is not None, "a compiler", "no C++ compiler", "install g++ or clang++, or name one by CXX")
    note(headers.has_driver(), "a driver", "no NVIDIA driver", "run where an NVIDIA GPU and its driver are")
    known = headers.driver_cuda()
    if cupti is not None and known is not None and cupti.cuda > known:
        remedy = f"update the driver, or set CUDA_HOME to a toolkit of CUDA {known}"
        note(False, "", f"CUPTI of CUDA {cupti.cuda} with a driver of CUDA {known}", remedy)
    if _is_for_administrators() and os.geteuid() != 0:
        note(False, "", "the driver lets administrators profile only", "set NVreg_RestrictProfilingToAdminUsers=0")
    return Examined(found, remedies[0] if remedies else "")


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _is_for_administrators() -> bool:
    """As the driver shows its settings; it restricts counters by this, and whatever else it chooses to."""
    try:
        return "RmProfilingAdminOnly: 1" in DRIVER_SETTINGS.read_text()
    except OSError:
        return False
