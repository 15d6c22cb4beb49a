"""The system's C++ compiler, and the kernels it has compiled before, on disk by their content.

A file's name is the hash of everything that went into it, so a kernel can be used by any process and never be
the wrong one. Files are written aside and renamed; a lock keeps processes from compiling the same thing at
once; the last 32 bytes are the hash of the rest, so a file cut short is noticed and made again.
"""

import ctypes
import fcntl
import functools
import hashlib
import os
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from drivetrain.core.caches import kernel_cache
from drivetrain.core.compilers import (
    KILLED,
    SMALLEST,
    Command,
    compiled_aside,
    find_cxx,
    none_found,
    refusal,
    version_of,
)
from drivetrain.core.errors import CompileError

FLAGS = ("-std=c++17", "-shared", "-fPIC", "-fwrapv", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off",
         "-fno-strict-aliasing", "-fno-exceptions", "-fno-rtti", "-Wno-psabi", "-march=native")  # fmt: skip
READ = "drivetrain_read"
"""A symbol behind every source, by which a shared object shows that the compiler has read it."""
DIGEST_NBYTES = 32
LEAST_FREE_NBYTES = 1 << 20
"""Of a disk on which a compiler's failure is taken for the disk's: no kernel is as large."""


@functools.cache
def cpu_flags() -> frozenset[str]:
    """What the processor can do, as the kernel lists it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


@functools.cache
def compiler() -> tuple[Command, str]:
    """Command and version of the compiler: CXX, or the first of g++ and clang++.

    Raises:
        CompileError: There is none, or it does not answer.
    """
    command = find_cxx()
    if command is not None:
        return command, version_of(command)
    raise CompileError(
        f'the engines "native" and "torch_compiled" need a C++ compiler, and found {none_found()}: '
        'install one (on Debian and Ubuntu: apt-get install g++), or compile with engine="xla"'
    )


def load_library(source: str, more_flags: Sequence[str], headers: Path | None = None) -> ctypes.CDLL:
    """The shared object of a source, compiled now or before.

    Args:
        source: C++.
        more_flags: Of the compiler, beside those of every kernel.
        headers: A folder that the source includes from; the result depends on what is in it, not on where it is.

    Raises:
        CompileError: No compiler, or one that is none of C++17, a source it refuses, or no place to keep the result.
    """
    command, version = compiler()
    flags = (*FLAGS, *more_flags)
    included = sorted(headers.rglob("*.h")) if headers is not None else []
    digests = [hashlib.sha256(header.read_bytes()).hexdigest() for header in included]
    content = "\n".join([source, *command[1:], *flags, *digests, version, platform.machine(), *sorted(cpu_flags())])
    flags += (f"-I{headers}",) if headers is not None else ()
    folder = kernel_cache()
    target = folder / f"{hashlib.sha256(content.encode()).hexdigest()}.so"
    try:
        if not is_whole(target):
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / f"{target.stem}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not is_whole(target):
                    build(command, flags, source, target)
        return ctypes.CDLL(str(target))
    except OSError as error:
        raise CompileError(
            f"compiled kernels cannot be kept in or loaded from {folder}: {error}; set DRIVETRAIN_CACHE to a folder "
            'that this user may write to and load code from, or compile with engine="xla"'
        ) from error


def digest_of(library: ctypes.CDLL) -> str:
    """The hash of everything that a shared object was made from, which is its file's name."""
    return Path(library._name).stem  # documented by ctypes # pyright: ignore[reportPrivateUsage]


def is_whole(path: Path) -> bool:
    """Whether a kept kernel is there and undamaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return False
    return hashlib.sha256(data[:-DIGEST_NBYTES]).digest() == data[-DIGEST_NBYTES:]


def build(command: Command, flags: tuple[str, ...], source: str, target: Path) -> None:
    """Compile aside, sign, and rename; under the lock, so that what lies aside already is of one who was killed."""
    for left in target.parent.glob(f"{target.name}.*"):
        shutil.rmtree(left, ignore_errors=True)
    with compiled_aside(target) as aside:
        marked = f'{source}\nextern "C" void {READ}() {{}}\n'
        error = refusal([*command, *flags, "-x", "c++", "-", "-o", str(aside)], marked)
        if error is not None:
            compiles = refusal([*command, *flags, "-x", "c++", "-", "-o", str(aside)], SMALLEST) is None
            raise fault(command, error, compiles, target.parent)
        if not aside.is_file():
            raise fault(command, "it says that all is well and writes nothing", False, target.parent)
        if not hasattr(ctypes.CDLL(str(aside)), READ):
            said = "what it writes shows nothing of the source on its standard input"
            raise fault(command, said, False, target.parent)
        data = aside.read_bytes()
        with aside.open("ab") as file:
            file.write(hashlib.sha256(data).digest())


def fault(command: Command, error: str, compiles: bool, folder: Path) -> CompileError:
    """Whose a refusal is: of the disk, of a compiler that takes no source, or ours.

    Args:
        command: The compiler.
        error: What it said.
        compiles: Whether it takes any source.
        folder: Where the kernel was to be kept.
    """
    num_free = shutil.disk_usage(folder).free
    if num_free < LEAST_FREE_NBYTES:
        return CompileError(
            f"a kernel cannot be compiled: the disk of {folder} is full, with {num_free} bytes free; "
            "make room, or set DRIVETRAIN_CACHE to a folder on another"
        )
    if error == KILLED:
        return CompileError(
            f"{' '.join(command)} did not come to its end with a kernel: {error}; make room, or compile with "
            'engine="xla"'
        )
    if not compiles:
        who = f"CXX={os.environ['CXX']}" if os.environ.get("CXX") else " ".join(command)
        return CompileError(
            f"{who} does not compile C++17 here: {error}; set CXX to a g++ or clang++ that does, or compile with "
            'engine="xla"'
        )
    said = f"{' '.join(command)} refuses a generated kernel: {error}"
    return CompileError(f'{said}; please report this, and use engine="xla"')
