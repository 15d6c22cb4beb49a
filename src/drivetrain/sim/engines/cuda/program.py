"""CUDA C++ to machine code by NVRTC, in this process: needs neither a GPU nor a driver nor a CUDA toolkit."""

# cuda.core chooses its modules by the version of CUDA when it is imported, which type checkers cannot follow.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false, reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

import io
from pathlib import Path

from cuda.core import ObjectCode, Program, ProgramOptions
from cuda.core.utils import FileStreamProgramCache
from cuda.pathfinder import DynamicLibNotFoundError

from drivetrain.core.errors import CompileError
from drivetrain.core.extras import install_command

NEVER_REFERENCED = 177
"""NVRTC's number for its warning about functions of the prelude that a kernel does not use."""


def compile_program(source: str, arch: str, folder: Path | None = None) -> tuple[ObjectCode, str]:
    """Machine code, and what the compiler says of registers and memory.

    Nothing is contracted, denormals stay, and quotients and roots are rounded correctly: the bits of `native`.

    Args:
        source: Of one kernel with its prelude.
        arch: As "sm_90".
        folder: Where machine code is kept, by the hash of everything it depends on; what was kept says nothing.

    Raises:
        CompileError: NVRTC is missing or refuses the source, or the folder cannot be used.
    """
    options = ProgramOptions(
        arch=arch, std="c++17", fma=False, ftz=False, prec_div=True, prec_sqrt=True, ptxas_options=["-v"],
        diag_suppress=[NEVER_REFERENCED],
    )  # fmt: skip
    said = io.StringIO()
    try:
        cache = None if folder is None else FileStreamProgramCache(folder)
        return Program(source, "c++", options).compile("cubin", logs=said, cache=cache), said.getvalue()
    except DynamicLibNotFoundError as error:
        raise CompileError(
            f'engine "cuda" compiles by NVRTC, whose library was not found: {install_command("cuda")}'
        ) from error
    except OSError as error:
        raise CompileError(
            f"compiled kernels cannot be kept in {folder}: {error}; set DRIVETRAIN_CACHE to a folder that this user "
            "may write to"
        ) from error
    except Exception as error:  # cuda.core's own are not public
        raise CompileError(
            f"NVRTC refuses a generated kernel for {arch}: {first_error(str(error))}; please report this, and use "
            'engine="native"'
        ) from error


def first_error(said: str) -> str:
    """The first line of a compiler's log that names an error."""
    lines = said.replace("\\n", "\n").splitlines()
    return next((line.strip() for line in lines if "error:" in line), said[:300])
