"""A stopped run waits for its learner as long as that is at work, and for nobody who hangs."""

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from drivetrain.train.processes import supervisor
from drivetrain.train.processes.launch import work_of
from live_processes import wait_until_dead


@dataclass
class FakeChild:
    role: str
    works: bool = False

    def is_at_work(self):
        return self.works


def seconds_until_pointless(monkeypatch, children, most_s=1_000):
    """How long a drain goes on that looks ten times a second; at most `most_s`."""
    now = 0.0
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: now)
    drain = supervisor._Drain()
    while not drain.is_pointless(children) and now < most_s:
        now += 0.11
    return now


def test_a_learner_that_is_at_work_is_waited_for_and_one_that_hangs_for_half_a_minute(monkeypatch):
    actor = FakeChild("actor", works=True)
    assert seconds_until_pointless(monkeypatch, [actor, FakeChild("learner", works=True)]) >= 1_000
    assert seconds_until_pointless(monkeypatch, [actor, FakeChild("learner")]) == pytest.approx(30, abs=0.5)


def test_once_the_learner_is_through_others_have_seconds(monkeypatch):
    assert seconds_until_pointless(monkeypatch, [FakeChild("actor", works=True)]) == pytest.approx(5, abs=0.5)


def test_time_in_which_the_whole_job_was_suspended_is_none_in_which_its_learner_hung(monkeypatch):
    now = 0.0
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: now)
    drain = supervisor._Drain()
    for seconds in (0.2, 3_600.0, 0.2):
        now += seconds
        assert not drain.is_pointless([FakeChild("learner")])


@pytest.mark.parametrize(("ending", "works"), [("while True: pass", True), ("time.sleep(1000)", False)])
def test_a_process_is_at_work_if_the_kernel_counts_time_for_any_of_its_threads_whatever_they_are_called(ending, works):
    called = r"ctypes.CDLL(None).prctl(15, b'\xc3')"  # half of a letter, as of a name that was cut
    body = f"import ctypes, threading, time\ndef go():\n  {called}\n  print('ready', flush=True)\n  {ending}"
    program = f"{body}\nthreading.Thread(target=go).start()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            time.sleep(0.5)
            before, _ = work_of(process.pid)
            deadline = time.monotonic() + (60 if works else 0.5)
            while (now := work_of(process.pid)[0]) == before and time.monotonic() < deadline:
                time.sleep(0.05)
            assert (now > before) == works
        finally:
            process.kill()


# Mounts a file system whose server takes what it is asked and never answers, and has a process ask it.
NEVER_ANSWERED = """
import ctypes, os, struct, sys
folder, libc = sys.argv[1], ctypes.CDLL(None)
fd = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
if libc.mount(b"none", folder.encode(), b"fuse", 0, options.encode()):
    sys.exit(1)
unique = struct.unpack_from("<IIQ", os.read(fd, 2**20))[2]
answer = struct.pack("<IIIIHHIIHHI7I", 7, 31, 2**16, 0, 12, 9, 2**16, 1, 16, 0, 0, *[0] * 7)
os.write(fd, struct.pack("<IiQ", 16 + len(answer), 0, unique) + answer)
asking = os.fork()
if asking == 0:
    os.close(fd)  # the last one to close it is the server: with that all who wait are told, and go
    os.stat(folder + "/x")
os.read(fd, 2**20)
print(asking, flush=True)
sys.stdin.read()
os.kill(asking, 9)
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare, of util-linux")
def test_a_process_that_waits_for_a_file_system_in_user_space_waits_for_a_disk(tmp_path):
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", NEVER_ANSWERED, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        said = process.stdout.readline()
        try:
            if not said:
                pytest.skip("this system lets no such file system be mounted")
            deadline = time.monotonic() + 10
            while not work_of(int(said))[1] and time.monotonic() < deadline:
                time.sleep(0.01)
            assert work_of(int(said))[1]
        finally:
            process.stdin.close()
            process.wait()
            if said:
                wait_until_dead([said])
