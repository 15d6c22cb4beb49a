"""Where this machine has NVIDIA's headers and libraries: of the extra `cupti`, or of a CUDA toolkit."""

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

INCLUDE_VARIABLE = "DRIVETRAIN_CUPTI_INCLUDE"
"""Folders with cupti.h and cuda.h, to be taken before all others."""
LIBRARY_VARIABLE = "DRIVETRAIN_LIBCUPTI"
"""A libcupti in place of the one that belongs to the headers; the layer reads it too."""
DRIVER_VARIABLE = "DRIVETRAIN_LIBCUDA"
"""A CUDA driver in place of the system's."""
NVML_VARIABLE = "DRIVETRAIN_LIBNVML"
"""An NVML in place of the driver's."""
_NEEDED = ("cupti.h", "cuda.h", "crt/host_defines.h")
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH")


class Cupti(NamedTuple):
    """CUPTI as it is installed here."""

    include: tuple[Path, ...]
    """Folders that hold cupti.h, cuda.h and what these include."""
    library: str
    """Path of libcupti, or its name where the system has to find it."""

    @property
    def cuda(self) -> int:
        """The major version of CUDA that it is of; CUPTI had version numbers of its own until CUDA 12."""
        return self.version // 10_000 or 12

    @property
    def version(self) -> int:
        """CUPTI_API_VERSION of the headers; 0 where they do not say."""
        for folder in self.include:
            file = folder / "cupti_version.h"
            for line in file.read_text().splitlines() if file.exists() else ():
                words = line.split()
                if words[:2] == ["#define", "CUPTI_API_VERSION"]:
                    return int(words[2])
        return 0


def find() -> Cupti | None:
    """Headers and their library, of the newest CUDA that the driver knows where that can be told.

    None where no folder has all headers.
    """
    installed = [cupti for folders in _candidates() if (cupti := _in(folders)) is not None]
    known = driver_cuda()
    fitting = [cupti for cupti in installed if known is None or cupti.cuda <= known]
    return next(iter(fitting or installed), None)


def has_driver() -> bool:
    """Whether NVIDIA's driver can be loaded; nothing is initialised."""
    return _driver() is not None


def driver_cuda() -> int | None:
    """The newest major version of CUDA that the driver knows; None where there is no driver that says so."""
    driver, version = _driver(), ctypes.c_int()
    if driver is None or not hasattr(driver, "cuDriverGetVersion"):
        return None
    return version.value // 1000 if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def _driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(os.environ.get(DRIVER_VARIABLE) or "libcuda.so.1")
    except OSError:
        return None


def _in(folders: list[Path]) -> Cupti | None:
    """What is in folders that belong together, if they have everything."""
    found = {name: next((folder for folder in folders if (folder / name).is_file()), None) for name in _NEEDED}
    include = found["cupti.h"]
    if include is None or None in found.values():
        return None
    return Cupti(tuple(folders), os.environ.get(LIBRARY_VARIABLE) or _library_of(include))


def _candidates() -> Iterator[list[Path]]:
    """Groups of folders that belong together, the preferred first."""
    chosen = os.environ.get(INCLUDE_VARIABLE)
    if chosen:
        yield [Path(folder) for folder in chosen.split(os.pathsep)]
    spec = importlib.util.find_spec("nvidia")
    # Wheels may lie in several folders of sys.path, as a system's and a user's; parts of one CUDA belong together.
    roots = list(map(Path, (spec.submodule_search_locations or ()) if spec else ()))
    for name in sorted({folder.name for root in roots for folder in root.glob("cu[0-9]*")}, reverse=True):
        yield [folder for root in roots if (folder := root / name / "include").is_dir()]
    yield [folder for root in roots for folder in sorted(root.glob("cuda_*/include"))]  # of CUDA 12: one for each part
    for root in filter(None, [*map(os.environ.get, _TOOLKITS), "/usr/local/cuda"]):
        yield [Path(root) / "include", Path(root) / "extras" / "CUPTI" / "include"]


def _library_of(include: Path) -> str:
    for folder in ("lib64", "lib"):
        found = sorted((include.parent / folder).glob("libcupti.so*"))
        if found:
            return str(found[0])
    return "libcupti.so"
