"""What a benchmark ran on: the machine, the versions, the commit, the command."""

import os
import platform
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import drivetrain
from drivetrain.core.machine import memory_nbytes, num_cores, read
from drivetrain.scope.cupti.readings import Nvml, NvmlError

CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a number is worth nothing without."""

    machine: Mapping[str, Any]
    """See `describe_machine`; and what else of it a bench depends on."""
    versions: Mapping[str, str]
    """Of drivetrain, and of others that take part."""
    commit: str
    """See `describe_commit`."""
    command: str
    """The command line to type for the same report."""


def origin_of(words: Sequence[str], distributions: Iterable[str], **more: Any) -> Origin:
    """That of a report which is begun now.

    Args:
        words: Of the command line behind `drivetrain bench`.
        distributions: Whose versions count.
        more: What else there is to say of the machine.
    """
    return Origin(
        machine={**describe_machine(), **more},
        versions=describe_versions(distributions),
        commit=describe_commit(),
        command=shlex.join(["drivetrain", "bench", *words]),
    )


def describe_machine(cpuinfo: Path = CPUINFO) -> dict[str, Any]:
    """Processor, usable cores and memory, kernel: what a ratio may depend on."""
    fields = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in read(cpuinfo).splitlines())
    }
    model = fields.get("model name") or fields.get("CPU implementer") or platform.processor()
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    simd = [flag for flag in ("avx2", "avx512f", "amx_tile", "asimd", "sve") if flag in flags]
    return {
        "cpu": " ".join(model.split()) or "unknown",
        "simd": simd,
        "architecture": platform.machine(),
        "cores": num_cores(),
        "memory_gib": round(memory_nbytes() / 2**30, 1),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "load_1min_before": os.getloadavg()[0],
    }


def gpus() -> list[str]:
    """What NVML calls the devices; empty where it does not say."""
    try:
        nvml = Nvml()
    except NvmlError:
        return []
    try:
        return nvml.names()
    except NvmlError:
        return []
    finally:
        nvml.close()


def describe_versions(distributions: Iterable[str]) -> dict[str, str]:
    """Version of drivetrain and of each distribution that is installed."""
    versions = {"drivetrain": drivetrain.__version__}
    for name in distributions:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def describe_commit(folder: Path = Path(__file__).parent) -> str:
    """Commit of the checkout that holds the code, with "+dirty" when it has changes.

    An installed wheel is in no checkout; then it is the wheel's version.
    """
    commit = git(folder, "rev-parse", "HEAD")
    tracked = git(folder, "ls-files", "--error-unmatch", "machine.py")
    if commit is None or tracked is None:
        return f"wheel {drivetrain.__version__}"
    changes = git(folder, "status", "--porcelain", "--untracked-files=no")
    return commit + ("+dirty" if changes else "")


def git(folder: Path, *arguments: str) -> str | None:
    """Standard output of one git command; None when git or the repository is missing."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
