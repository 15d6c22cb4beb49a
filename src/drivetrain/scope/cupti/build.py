"""Compiles the layer against the headers that are there, once for each version of them, of it and of the compiler.

As PyTorch's operators are (hooks/torch_operators.py), and for the same reason: a wheel is built elsewhere, and
the headers may be installed after it.
"""

import hashlib
import os
import platform
import subprocess
import tempfile
from pathlib import Path

from drivetrain.core.compilers import find_cxx
from drivetrain.core.errors import CompileError
from drivetrain.core.extras import install_command
from drivetrain.scope.cupti.headers import Cupti, find

_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
_TIMEOUT_S = 300.0
REMEDY = f"{install_command('cupti')}, or set CUDA_HOME to a CUDA toolkit"


def built() -> Path:
    """The layer as a library; compiles it where it is not there yet.

    Raises:
        CompileError: There are no headers or no compiler, or they do not go together.
    """
    cupti, compiler = find(), find_cxx()
    if cupti is None:
        raise CompileError(f"expected cupti.h, cuda.h and crt/host_defines.h, and did not find them together: {REMEDY}")
    if compiler is None:
        raise CompileError("expected a C++ compiler, and found none: install g++ or clang++, or name one by CXX")
    target = _folder() / f"cupti-{cupti.version}-{_digest(cupti, compiler)}.so"
    if not target.exists():
        _compile(cupti, compiler, target)
    return target


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drivetrain" / "cupti"


def _digest(cupti: Cupti, compiler: str) -> str:
    sources = sorted(path for path in Path(__file__).parent.iterdir() if path.suffix in (".cpp", ".hpp"))
    said = subprocess.run([compiler, "--version"], capture_output=True, check=False, timeout=_TIMEOUT_S).stdout
    parts = [*(path.read_bytes() for path in sources), said, platform.machine().encode(), *map(bytes, cupti.include)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _compile(cupti: Cupti, compiler: str, target: Path) -> None:
    """Aside and renamed, so that nobody loads half a library."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            aside = Path(folder) / target.name
            source = Path(__file__).with_name("layer.cpp")
            includes = [word for path in cupti.include for word in ("-isystem", str(path))]
            command = [compiler, *_FLAGS, *includes, str(source), "-o", str(aside), "-ldl"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
            if done.returncode != 0:
                said = next((line for line in done.stderr.splitlines() if "error" in line), "it said nothing")
                raise CompileError(f"the CUPTI layer does not compile against {cupti.include[0]}: {said.strip()}")
            aside.replace(target)
    except OSError as error:
        raise CompileError(f"the CUPTI layer cannot be kept in {target.parent}: {error}; set XDG_CACHE_HOME") from error
