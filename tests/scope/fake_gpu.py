"""A GPU that is none: libraries in place of NVIDIA's, made from the same headers (cpp/tests/fake_*.cpp)."""

import os
import subprocess
from pathlib import Path

import pytest

from drivetrain.core.compilers import find_cxx
from drivetrain.scope.cupti import headers

NATIVE = Path(__file__).parents[2] / "cpp" / "tests"

PROGRAM = """
import ctypes, os
from drivetrain import scope

fake = ctypes.CDLL(os.environ["DRIVETRAIN_LIBCUPTI"])  # also the CUDA driver, and what the program does with it


def launch(name, ns=1000):
    return fake.fake_launch(name.encode(), ctypes.c_uint64(ns))
"""


def build(folder):
    """Compile them into a folder; the environment that puts them in NVIDIA's place."""
    cupti, compiler = headers.find(), find_cxx()
    if cupti is None or compiler is None:
        pytest.skip("needs a C++ compiler and CUPTI's headers, as the extra `cupti` brings them")
    includes = [word for path in cupti.include for word in ("-isystem", str(path))]
    made = {}
    for name in ("fake_cupti", "fake_nvml"):
        made[name] = str(folder / f"{name}.so")
        source = str(NATIVE / f"{name}.cpp")
        command = [*compiler, "-std=c++20", "-fPIC", "-shared", *includes, source, "-o", made[name], "-ldl", "-pthread"]
        subprocess.run(command, check=True)
    return {
        headers.DRIVER_VARIABLE: made["fake_cupti"],
        headers.LIBRARY_VARIABLE: made["fake_cupti"],
        headers.NVML_VARIABLE: made["fake_nvml"],
    }


def share_layer(folder):
    """Let the test's own cache take compiled layers from a folder that other tests have filled."""
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "drivetrain"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "cupti").symlink_to(folder, target_is_directory=True)
