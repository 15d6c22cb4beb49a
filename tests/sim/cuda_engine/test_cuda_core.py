"""The engine through cuda.core as it is, with a stand-in for the driver below it: what a GPU's tests ask runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.core", reason='needs the extra: pip install "drivetrain[cuda]"')

from drivetrain.core.compilers import find_cxx
from drivetrain.scope.cupti import headers

HERE = Path(__file__).parent
OF_A_GPU = (
    "test_any_number_of_environments[31]", "test_any_number_of_environments[128]",
    "test_a_callers_stream_is_used_and_results_of_other_libraries_arrays_are_the_same",
    "test_arrays_on_the_gpu_that_do_not_fit_are_refused",
    "test_single_steps_replayed_as_a_graph_are_the_steps_that_native_takes",
)  # fmt: skip


@pytest.mark.whole
def test_what_is_asked_of_a_gpu_runs_on_a_driver_that_is_the_host(tmp_path):
    if (found := headers.find()) is None:
        pytest.skip('needs cuda.h: pip install "drivetrain[cupti]"')
    includes = [f"-I{folder}" for folder in found.include]
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", *includes, "-ldl"]
    source, library = HERE / "fake_cuda.cpp", tmp_path / "libcuda.so.1"
    subprocess.run([*find_cxx(), str(source), *flags, "-o", str(library)], check=True, timeout=200)
    tests = [HERE / "on_fake_driver.py", *(f"{HERE / 'test_cuda_gpu.py'}::{name}" for name in OF_A_GPU)]
    words = ["-m", "pytest", "-p", "on_fake_driver", "-p", "no:cacheprovider", "-m", "gpu", "-n0", "-q"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), *sys.path])
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, *words, *map(str, tests)], env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert re.search(rf"\b{len(OF_A_GPU) + 3} passed\b", done.stdout), done.stdout[-2000:]
