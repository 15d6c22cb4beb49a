"""PyTorch's operators, each as native time, so that Python between them is told apart: `profile --torch-operators`.

Nothing public in Python sees operators at a price that a small network can pay; a callback of the dispatcher does, in
C++ (`at::addGlobalCallback`). So a few lines are compiled against the PyTorch that is there, before the program starts:
by `python -m drivetrain.scope.hooks.torch_operators`, once per version of PyTorch.
"""

import ctypes
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from drivetrain.core.caches import user_cache
from drivetrain.core.compilers import compiled_aside
from drivetrain.core.errors import InvalidInput, MissingExtra
from drivetrain.scope import _native
from drivetrain.scope.notes import leave_note
from drivetrain.scope.process import recording_into
from drivetrain.scope.sites import Site, table

VARIABLE = "DRIVETRAIN_SCOPE_TORCH_OPERATORS"
_SOURCE = Path(__file__).with_suffix(".cpp")
_NAME = "drivetrain_torch_operators"


def built() -> Path:
    """The compiled callback for the PyTorch of this interpreter; compiles it where it is not there yet.

    Raises:
        MissingExtra: There is no PyTorch.
        InvalidInput: It cannot be compiled here.
    """
    import importlib.metadata  # slow, and every recorded process imports this file

    from drivetrain.core.extras import missing_extra

    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtra(f"--torch-operators: {missing_extra(error)}") from error
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    library = user_cache(f"torch-operators-{version}-python-{python}") / f"{_NAME}.so"
    if library.exists() and library.stat().st_mtime > _SOURCE.stat().st_mtime:
        return library
    with compiled_aside(library) as aside:
        done = subprocess.run(  # apart: PyTorch stays out of this process
            [sys.executable, "-m", __name__, str(aside.parent)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0 or not aside.exists():
            said = (done.stderr.strip() or "nothing").splitlines()[-1]
            raise InvalidInput(
                f"--torch-operators: expected a C++ compiler and Ninja that compile against PyTorch {version}: {said}; "
                "leave it out, and modules count as native time whole"
            )
    return library


def install() -> bool:
    """Record operators of this process, if that is asked for, and the library fits the PyTorch of its program, which is
    imported by then; whether they are recorded. Where it does not fit, a note says so.
    """
    library = os.environ.get(VARIABLE)
    if not library:
        return False
    try:
        functions = ctypes.CDLL(library)
    except OSError as error:
        if (folder := recording_into()) is not None:
            told = f"operators of PyTorch were not recorded, and modules count as native time whole: {error}"
            leave_note(folder, f"{os.getpid()}.torch-operators", f"Process {os.getpid()}: {told}")
        return False
    begin, end = _native.operator_callbacks(table.number(Site("torch operator", "", "backend")))
    functions.drivetrain_record_operators.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    functions.drivetrain_record_operators(begin, end)
    return True


def _compile(folder: str) -> None:
    extension: Any = importlib.import_module("torch.utils.cpp_extension")
    extension.load(
        _NAME, [str(_SOURCE)], extra_cflags=["-O2"], build_directory=folder, is_python_module=False, with_cuda=False
    )


if __name__ == "__main__":
    _compile(sys.argv[1])
