"""Compiles the layer against the headers that are there, once for each version of them, of it and of the compiler.

As PyTorch's operators are (hooks/torch_operators.py), and for the same reason: a wheel is built elsewhere, and
the headers may be installed after it.
"""

import hashlib
import platform
from pathlib import Path

from drivetrain.core.caches import user_cache
from drivetrain.core.compilers import Command, compiled_aside, find_cxx, refusal, version_of
from drivetrain.core.errors import CompileError
from drivetrain.core.extras import install_command
from drivetrain.scope.cupti.headers import Cupti, find

_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
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
    target = user_cache("cupti") / f"cupti-{cupti.version}-{_digest(cupti, compiler)}.so"
    if not target.exists():
        _compile(cupti, compiler, target)
    return target


def _digest(cupti: Cupti, compiler: Command) -> str:
    sources = sorted(path for path in Path(__file__).parent.iterdir() if path.suffix in (".cpp", ".hpp"))
    said = f"{version_of(compiler)}, {platform.machine()}".encode()
    parts = [*(path.read_bytes() for path in sources), said, *map(bytes, cupti.include)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _compile(cupti: Cupti, compiler: Command, target: Path) -> None:
    source = Path(__file__).with_name("layer.cpp")
    includes = [word for path in cupti.include for word in ("-isystem", str(path))]
    try:
        with compiled_aside(target) as aside:
            error = refusal([*compiler, *_FLAGS, *includes, str(source), "-o", str(aside), "-ldl"])
            if error is not None:
                raise CompileError(f"the CUPTI layer does not compile against {cupti.include[0]}: {error}")
    except OSError as error:
        raise CompileError(f"the CUPTI layer cannot be kept in {target.parent}: {error}; set XDG_CACHE_HOME") from error
