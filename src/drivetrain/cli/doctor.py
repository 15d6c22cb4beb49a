"""`drivetrain doctor`: what this machine and this installation can do, and one line of verdict.

Nothing is assumed: the shared-memory rows come from a segment that is created here, attached by
another process, and whose lock that process takes to its grave. Native code is imported where it is
tried, so that a broken build is a row of the table.
"""

import importlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import rich.box
import rich.markup
import rich.table

import drivetrain
from drivetrain.cli.flags import read_flags
from drivetrain.core import machine
from drivetrain.core.aside import save_text
from drivetrain.core.compilers import SMALLEST, find_cxx, none_found, refusal, version_of
from drivetrain.core.errors import CompileError, DrivetrainError
from drivetrain.core.extras import EXTRAS, install_command
from drivetrain.core.interrupts import holding_back, raise_swallowed
from drivetrain.core.outputs import require_folders
from drivetrain.core.words import size
from drivetrain.scope.report.console import Console

if TYPE_CHECKING:
    from drivetrain.core.segments import SegmentHandle

CHILD_TIMEOUT_S = 60.0
GPU_TIMEOUT_S = 20.0
MUTEX_OFFSET = 0


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `drivetrain doctor`."""

    json: Path | None = None
    """Also write the rows to this file."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One finding; "absent" is worth knowing, and only "failed" makes the verdict bad."""

    name: str
    status: Literal["ok", "absent", "failed"]
    found: str
    remedy: str = ""


def run(argv: list[str]) -> int:
    """Examine, print the table and the verdict; 0 when nothing failed, else 1."""
    options = read_flags(Options, argv, prog="drivetrain doctor", description=__doc__)
    require_folders(options.json)
    rows = list(examine())
    failed = [row.name for row in rows if row.status == "failed"]
    if options.json is not None:
        document = {"version": drivetrain.__version__, "ok": not failed, "rows": [asdict(row) for row in rows]}
        save_text(options.json, json.dumps(document, indent=2) + "\n")
    Console().print(table(rows))
    print(f"does not work here: {', '.join(failed)}" if failed else "drivetrain works here")
    return 1 if failed else 0


def examine() -> Iterator[Row]:
    """All findings, in the order of the table."""
    yield platform_row()
    yield Row(name="python", status="ok", found=f"{platform.python_implementation()} {platform.python_version()}")
    yield Row(name="cores", status="ok", found=f"{machine.num_cores()} for this process")
    yield Row(name="memory", status="ok", found=f"{size(machine.memory_nbytes())} for this process")
    yield tried("native code", native_code)
    yield tried("shared memory", shared_memory)
    yield compiler_row()
    yield gpu_row()
    yield gpu_recording_row()
    yield from map(extra_row, EXTRAS)


def platform_row() -> Row:
    """Operating system and processor; only Linux on x86-64 and aarch64 is supported."""
    is_supported = platform.system() == "Linux" and platform.machine() in ("x86_64", "aarch64")
    return Row(
        name="platform",
        status="ok" if is_supported else "failed",
        found=f"{platform.system()} {platform.release()} {platform.machine()}",
        remedy="" if is_supported else "use Linux on x86-64 or aarch64",
    )


def tried(name: str, attempt: Callable[[], str]) -> Row:
    """The row of something that is tried out: whatever goes wrong is the finding."""
    try:
        return Row(name=name, status="ok", found=attempt())
    except DrivetrainError as error:  # says itself what to do
        raise_swallowed()
        return Row(name=name, status="failed", found=" ".join(str(error).split()))
    except OSError as error:  # of the system, which no other installation would change
        raise_swallowed()
        remedy = "a limit of this process (`ulimit -a`) or of its container may be in the way"
        return Row(name=name, status="failed", found=str(error), remedy=remedy)
    except Exception as error:  # a diagnosis must survive whatever it finds
        raise_swallowed()
        found = " ".join(f"{type(error).__name__}: {error}".split())
        return Row(name=name, status="failed", found=found, remedy="install drivetrain again, and report this")


def native_code() -> str:
    """Load the extension modules; say what compiled them, which SIMD level replay chose here, and what this CPU
    multiplies bfloat16 by, if by anything.
    """
    native = importlib.import_module("drivetrain.core._native")
    replay = importlib.import_module("drivetrain.replay")
    trainer = importlib.import_module("drivetrain.train._native")
    compiler = getattr(native, "COMPILER", "unknown compiler")
    tiles = ", bfloat16 by AMX" if trainer.has_tiles() else ""
    return f"{compiler}, SIMD {replay.simd_level()}{tiles}"


def shared_memory() -> str:
    """Create a segment, and let another process attach to it, lock it and die.

    Proves what runs depend on: memfds, opening them through /proc, and robust mutexes. Nothing here
    needs /dev/shm.
    """
    from drivetrain.core._native import Mutex
    from drivetrain.core.segments import Segment

    segment = Segment.create("doctor", Mutex.NBYTES)
    try:
        mutex = Mutex(segment.payload, MUTEX_OFFSET, initialize=True)
        child = multiprocessing.get_context("spawn").Process(target=lock_and_die, args=(segment.handle(),))
        resource_tracker.ensure_running()  # which lets Ctrl-C through again when it starts
        try:
            with holding_back(signal.SIGINT):
                child.start()
            child.join(CHILD_TIMEOUT_S)
        finally:
            if child.is_alive():
                child.kill()
        if child.exitcode != 0:
            raise RuntimeError(f"another process could not attach to a segment (exit code {child.exitcode})")
        with mutex as previous_owner_died:
            if not previous_owner_died:
                raise RuntimeError("the death of a lock's owner went unnoticed")
        del mutex
    finally:
        segment.close()
    return "segments attach across processes, locks survive their owners"


def lock_and_die(handle: "SegmentHandle") -> None:
    """In another process: attach, take the lock, and exit while holding it."""
    from drivetrain.core._native import Mutex
    from drivetrain.core.segments import Segment

    mutex = Mutex(Segment.attach(handle, "doctor").payload, MUTEX_OFFSET, initialize=False)
    mutex.__enter__()
    os._exit(0)


def compiler_row() -> Row:
    """The C++ compiler that simulators are compiled with where they run, and whether it takes anything."""
    command = find_cxx()
    if command is None:
        return lacking_compiler(none_found())
    try:
        version = version_of(command)
    except CompileError as error:
        return lacking_compiler(str(error))
    error = refusal([*command, "-std=c++17", "-fsyntax-only", "-x", "c++", "-"], SMALLEST)
    if error is not None:
        return lacking_compiler(f"{shlex.join(command)} does not compile C++17: {error}")
    return Row(name="c++ compiler", status="ok", found=version)


def lacking_compiler(found: str) -> Row:
    """The row of one that is not there, or is of no use."""
    remedy = "install g++ or clang++, or name one by CXX, for drivetrain.sim's engines native and torch_compiled"
    return Row(name="c++ compiler", status="absent", found=found, remedy=remedy)


def gpu_row() -> Row:
    """NVIDIA GPUs, as the driver's own tool lists them; no framework is imported to find out."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        from drivetrain.scope.cupti import headers

        driver = "a driver, and no nvidia-smi that would list GPUs"
        found = driver if headers.has_driver() else "no NVIDIA driver; nothing here needs one"
        return Row(name="gpu", status="absent", found=found)
    try:
        listed = subprocess.run(
            [tool, "-L"], capture_output=True, text=True, errors="replace", timeout=GPU_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Row(name="gpu", status="absent", found=f"nvidia-smi does not answer: {error}")
    names = [line.partition(" (UUID")[0] for line in listed.stdout.splitlines() if line]
    return Row(name="gpu", status="ok" if names else "absent", found="; ".join(names) or "none listed")


def gpu_recording_row() -> Row:
    """Whether `drivetrain profile` can record a GPU here: headers, library, compiler and driver."""
    from drivetrain.scope.cupti.examine import examine as examine_cupti

    examined = examine_cupti()
    return Row(
        name="gpu recording",
        status="absent" if examined.remedy else "ok",
        found="; ".join(examined.found),
        remedy=examined.remedy,
    )


def extra_row(extra: str) -> Row:
    """The versions that make up an extra, or what to type for those that are not there."""
    versions = {distribution: installed_version(distribution) for distribution in EXTRAS[extra]}
    found = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    if all(versions.values()):
        return Row(name=f"extra {extra}", status="ok", found=found)
    return Row(name=f"extra {extra}", status="absent", found=found or "not installed", remedy=install_command(extra))


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution, without importing it; None when it is absent."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def table(rows: list[Row]) -> rich.table.Table:
    """The rows for a terminal."""
    marks = {"ok": "[green]ok[/]", "absent": "[yellow]-[/]", "failed": "[red]FAILED[/]"}
    drawn = rich.table.Table(box=rich.box.SIMPLE_HEAD, title=f"drivetrain {drivetrain.__version__}")
    for heading in ("", "what", "found"):
        drawn.add_column(heading, overflow="fold")
    for row in rows:
        found = rich.markup.escape(f"{row.found}\n{row.remedy}".strip())
        drawn.add_row(marks[row.status], row.name, found)
    return drawn
