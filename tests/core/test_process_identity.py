"""Whether a process is alive, and which one it is: also of one that cannot be looked at."""

import os

import pytest
from lone_process import run_in_child

from drivetrain.core import _native


def test_this_process_is_alive_under_its_start_time_only():
    start = _native.process_start_time(os.getpid())
    assert start > 0
    assert _native.process_is_alive(os.getpid(), start)
    assert not _native.process_is_alive(os.getpid(), start + 1)


@pytest.mark.parametrize("pid", [-1, 0, 2**22 + 1, 2**62])
def test_numbers_of_no_process_are_dead(pid):
    assert not _native.process_is_alive(pid, 1)
    assert _native.process_start_time(pid) == 0


def test_a_zombie_is_dead():
    assert run_in_child("""
import os
from drivetrain.core import _native
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(r, 1)
    os._exit(0)
start = _native.process_start_time(pid)
print(_native.process_is_alive(pid, start))
os.write(w, b"x")
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
print(_native.process_is_alive(pid, start))
os.waitpid(pid, 0)
print(_native.process_is_alive(pid, start))
""").split() == ["True", "False", "False"]


def test_a_process_without_file_descriptors_takes_nobody_for_dead_who_lives():
    assert run_in_child("""
import os, resource, signal
from drivetrain.core import _native
mine = _native.process_start_time(os.getpid())
other, ended = os.fork(), None
if other == 0:
    signal.pause()
start = _native.process_start_time(other)
ended = os.fork()
if ended == 0:
    os._exit(0)
os.waitpid(ended, 0)
resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
print(_native.process_start_time(other))
print(_native.process_is_alive(other, start), _native.process_is_alive(os.getpid(), mine))
print(_native.process_is_alive(ended, start), _native.process_is_alive(0, 1), _native.process_is_alive(2**62, 1))
for fd in held:
    os.close(fd)
print(_native.process_is_alive(other, 0), _native.process_is_alive(other, start + 1))
os.kill(other, signal.SIGKILL)
os.waitpid(other, 0)
print(_native.process_is_alive(other, 0))
""").split() == ["0", "True", "True", "False", "False", "False", "True", "False", "False"]


def test_a_stopped_process_is_alive():
    assert run_in_child("""
import os, signal
from drivetrain.core import _native
pid = os.fork()
if pid == 0:
    signal.pause()
start = _native.process_start_time(pid)
os.kill(pid, signal.SIGSTOP)
os.waitpid(pid, os.WUNTRACED)
print(_native.process_is_alive(pid, start))
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
""").split() == ["True"]


def test_a_process_whose_name_looks_like_its_own_fields_is_found():
    assert run_in_child("""
import os
from drivetrain.core import _native
start = _native.process_start_time(os.getpid())
for name in (b"a) Z 0 0", b") X (", b"((("):
    with open("/proc/self/comm", "wb") as comm:
        comm.write(name)
    assert _native.process_start_time(os.getpid()) == start
    assert _native.process_is_alive(os.getpid(), start)
print("ok")
""").split() == ["ok"]
