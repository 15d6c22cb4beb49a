"""What this process may use of the machine: cores and memory, as affinity and cgroups allow.

A container that may use 2 of 64 cores is a machine with 2 cores; os.cpu_count() says 64.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

OWN_CGROUPS = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def num_cores() -> int:
    """Cores this process may use: CPU affinity, and the tightest cgroup quota rounded up."""
    return max(1, math.ceil(min(len(os.sched_getaffinity(0)), cpu_quota())))


def cpu_quota() -> float:
    """Cores' worth of time that the cgroups above this process grant; infinite without a limit."""
    quota = math.inf
    for folder in own_cgroups("cpu"):
        limit = read(folder / "cpu.max").split()  # version 2: "quota period" or "max period"
        if not limit:
            limit = [read(folder / "cpu.cfs_quota_us"), read(folder / "cpu.cfs_period_us")]  # version 1
        if limit[0] not in ("", "max", "-1"):
            quota = min(quota, int(limit[0]) / int(limit[1]))
    return quota


def memory_nbytes() -> int:
    """Bytes of memory this process may use at most: what is installed, or the tightest cgroup limit."""
    limits = [kernel_nbytes("MemTotal")]
    for folder in own_cgroups("memory"):
        text = read(folder / "memory.max") or read(folder / "memory.limit_in_bytes")
        if text not in ("", "max"):
            limits.append(int(text))
    return min(limits)


def available_memory() -> int:
    """Bytes this process may still use: what is available, less where a cgroup has less to give.

    Pages of files that were read or written count as usage of a cgroup, and are given up when memory is needed: they
    are available, as they are in the kernel's MemAvailable.
    """
    left = [kernel_nbytes("MemAvailable")]
    for folder in own_cgroups("memory"):
        for limit, usage in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            text = read(folder / limit)
            if text not in ("", "max"):
                used = int(read(folder / usage)) - _nbytes_of_files(folder)
                left.append(int(text) - max(used, 0))
            if text:
                break  # a cgroup is of one version
    return max(min(left), 0)


def _nbytes_of_files(cgroup: Path) -> int:
    """Bytes that a cgroup and those below it keep of files."""
    stat = dict(line.split() for line in read(cgroup / "memory.stat").splitlines() if "active_file" in line)
    prefix = "total_" if "total_inactive_file" in stat else ""  # version 1 tells apart what those below it keep
    return sum(int(stat.get(f"{prefix}{age}_file", 0)) for age in ("active", "inactive"))


def kernel_nbytes(name: str) -> int:
    """What the kernel says of memory under this name, in bytes."""
    (line,) = (line for line in MEMINFO.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def own_cgroups(controller: str) -> Iterator[Path]:
    """Each folder from this process's cgroup up to the mount, in version 2 and in version 1."""
    for line in read(OWN_CGROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = CGROUPS / controllers if controllers else CGROUPS
        folder = mount / path.strip("/")
        yield folder
        while folder != mount:
            folder = folder.parent
            yield folder


def read(path: Path) -> str:
    """The stripped text of a file; empty when it is absent or unreadable."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
