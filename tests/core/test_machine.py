"""Cores and memory come from affinity and cgroups, in both versions of the hierarchy."""

import math
import os

from drivetrain.core import machine


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
    return path


def test_the_cores_of_this_process_lie_within_its_affinity():
    assert 1 <= machine.num_cores() <= len(os.sched_getaffinity(0))


def test_cores_follow_a_narrowed_affinity():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert machine.num_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_without_a_limit_the_quota_is_infinite(tmp_path):
    own = write(tmp_path / "own", "0::/a/b")
    write(tmp_path / "root/a/b/cpu.max", "max 100000")
    assert machine.cpu_quota(own, tmp_path / "root") == math.inf


def test_the_tightest_quota_up_the_hierarchy_counts(tmp_path):
    own = write(tmp_path / "own", "0::/a/b")
    write(tmp_path / "root/a/cpu.max", "150000 100000")
    write(tmp_path / "root/a/b/cpu.max", "400000 100000")
    assert machine.cpu_quota(own, tmp_path / "root") == 1.5


def test_the_quota_of_a_version_1_hierarchy_counts(tmp_path):
    own = write(tmp_path / "own", "5:cpu,cpuacct:/job\n4:memory:/job\n0::/")
    write(tmp_path / "root/cpu,cpuacct/job/cpu.cfs_quota_us", "200000")
    write(tmp_path / "root/cpu,cpuacct/job/cpu.cfs_period_us", "100000")
    write(tmp_path / "root/cpu,cpuacct/cpu.cfs_quota_us", "-1")
    assert machine.cpu_quota(own, tmp_path / "root") == 2.0


def test_pages_of_files_that_a_cgroup_keeps_are_available(tmp_path):
    """A container that has read a dataset: the kernel gives its pages up before it refuses anything."""
    meminfo = write(tmp_path / "meminfo", "MemTotal:  16384 kB\nMemAvailable:  16384 kB")
    own = write(tmp_path / "own", "0::/job")
    write(tmp_path / "root/job/memory.max", str(8 * 2**20))
    write(tmp_path / "root/job/memory.current", str(7 * 2**20))
    write(tmp_path / "root/job/memory.stat", f"anon 1000\ninactive_file {5 * 2**20}\nactive_file {2**20}")
    assert machine.available_memory(own, tmp_path / "root", meminfo) == 7 * 2**20
    own = write(tmp_path / "own", "4:memory:/old")
    write(tmp_path / "root/memory/old/memory.limit_in_bytes", str(8 * 2**20))
    write(tmp_path / "root/memory/old/memory.usage_in_bytes", str(7 * 2**20))
    write(tmp_path / "root/memory/old/memory.stat", f"inactive_file 0\nactive_file 0\ntotal_inactive_file {2**20}")
    assert machine.available_memory(own, tmp_path / "root", meminfo) == 2 * 2**20


def test_the_tightest_memory_limit_counts(tmp_path):
    own = write(tmp_path / "own", "4:memory:/job\n0::/slice")
    meminfo = write(tmp_path / "meminfo", "MemTotal:  1024 kB\nMemFree:  3 kB")
    assert machine.memory_nbytes(own, tmp_path / "root", meminfo) == 2**20
    write(tmp_path / "root/slice/memory.max", "max")
    write(tmp_path / "root/memory/job/memory.limit_in_bytes", "4096")
    assert machine.memory_nbytes(own, tmp_path / "root", meminfo) == 4096


def test_what_is_left_of_the_tightest_cgroup_is_what_is_available(tmp_path):
    own = write(tmp_path / "own", "0::/slice/job")
    meminfo = write(tmp_path / "meminfo", "MemTotal:  1024 kB\nMemAvailable:  512 kB")
    assert machine.available_memory(own, tmp_path / "root", meminfo) == 2**19
    write(tmp_path / "root/slice/memory.max", "8192")
    write(tmp_path / "root/slice/memory.current", "5000")
    assert machine.available_memory(own, tmp_path / "root", meminfo) == 3192
    write(tmp_path / "root/slice/memory.current", "9000")
    assert machine.available_memory(own, tmp_path / "root", meminfo) == 0
