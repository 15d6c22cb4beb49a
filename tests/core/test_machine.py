"""Cores and memory come from affinity and cgroups, in both versions of the hierarchy."""

import math
import os

import pytest

from drivetrain.core import machine


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Writes what the kernel would say: the cgroups of this process, files of theirs, its memory."""
    for name, place in (("OWN_CGROUPS", "own"), ("CGROUPS", "root"), ("MEMINFO", "meminfo")):
        monkeypatch.setattr(machine, name, tmp_path / place)

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    return write


def test_the_cores_of_this_process_lie_within_its_affinity():
    assert 1 <= machine.num_cores() <= len(os.sched_getaffinity(0))


def test_cores_follow_a_narrowed_affinity():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert machine.num_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_without_a_limit_the_quota_is_infinite(kernel):
    kernel("own", "0::/a/b")
    kernel("root/a/b/cpu.max", "max 100000")
    assert machine.cpu_quota() == math.inf


def test_the_tightest_quota_up_the_hierarchy_counts(kernel):
    kernel("own", "0::/a/b")
    kernel("root/a/cpu.max", "150000 100000")
    kernel("root/a/b/cpu.max", "400000 100000")
    assert machine.cpu_quota() == 1.5


def test_the_quota_of_a_version_1_hierarchy_counts(kernel):
    kernel("own", "5:cpu,cpuacct:/job\n4:memory:/job\n0::/")
    kernel("root/cpu,cpuacct/job/cpu.cfs_quota_us", "200000")
    kernel("root/cpu,cpuacct/job/cpu.cfs_period_us", "100000")
    kernel("root/cpu,cpuacct/cpu.cfs_quota_us", "-1")
    assert machine.cpu_quota() == 2.0


def test_pages_of_files_that_a_cgroup_keeps_are_available(kernel):
    """A container that has read a dataset: the kernel gives its pages up before it refuses anything."""
    kernel("meminfo", "MemTotal:  16384 kB\nMemAvailable:  16384 kB")
    kernel("own", "0::/job")
    kernel("root/job/memory.max", str(8 * 2**20))
    kernel("root/job/memory.current", str(7 * 2**20))
    kernel("root/job/memory.stat", f"anon 1000\ninactive_file {5 * 2**20}\nactive_file {2**20}")
    assert machine.available_memory() == 7 * 2**20
    kernel("own", "4:memory:/old")
    kernel("root/memory/old/memory.limit_in_bytes", str(8 * 2**20))
    kernel("root/memory/old/memory.usage_in_bytes", str(7 * 2**20))
    kernel("root/memory/old/memory.stat", f"inactive_file 0\nactive_file 0\ntotal_inactive_file {2**20}")
    assert machine.available_memory() == 2 * 2**20


def test_the_tightest_memory_limit_counts(kernel):
    kernel("own", "4:memory:/job\n0::/slice")
    kernel("meminfo", "MemTotal:  1024 kB\nMemFree:  3 kB")
    assert machine.memory_nbytes() == 2**20
    kernel("root/slice/memory.max", "max")
    kernel("root/memory/job/memory.limit_in_bytes", "4096")
    assert machine.memory_nbytes() == 4096


def test_what_is_left_of_the_tightest_cgroup_is_what_is_available(kernel):
    kernel("own", "0::/slice/job")
    kernel("meminfo", "MemTotal:  1024 kB\nMemAvailable:  512 kB")
    assert machine.available_memory() == 2**19
    kernel("root/slice/memory.max", "8192")
    kernel("root/slice/memory.current", "5000")
    assert machine.available_memory() == 3192
    kernel("root/slice/memory.current", "9000")
    assert machine.available_memory() == 0
