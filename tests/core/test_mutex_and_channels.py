"""The robust mutex, broadcasts, futexes: each with a process that dies."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from lone_process import run_in_child

from drivetrain.core import _native
from drivetrain.core.segments import Segment

SPAWN = multiprocessing.get_context("spawn")


# --- The mutex


def mutex_segment():
    segment = Segment.create("mutex", 4096)
    return segment, _native.Mutex(segment.payload, 0, initialize=True)


def test_a_mutex_excludes_threads():
    segment, mutex = mutex_segment()
    counter = np.frombuffer(segment.payload, np.int64)[64:65]

    def count():
        for _ in range(5000):
            with mutex as owner_died:
                assert owner_died is False
                value = int(counter[0])
                counter[0] = value + 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter[0] == 20_000


def count_elsewhere(handle, number):
    with Segment.attach(handle, "mutex") as segment:
        mutex = _native.Mutex(segment.payload, 0, initialize=False)
        counter = np.frombuffer(segment.payload, np.int64)[64:65]
        for _ in range(number):
            with mutex:
                counter[0] = int(counter[0]) + 1
        del counter, mutex


@pytest.mark.whole
def test_a_mutex_excludes_processes():
    segment, mutex = mutex_segment()
    children = [SPAWN.Process(target=count_elsewhere, args=(segment.handle(), 20_000)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    with mutex:
        assert np.frombuffer(segment.payload, np.int64)[64] == 40_000


def test_the_next_locker_learns_of_a_holders_death_once():
    assert (
        run_in_child("""
import os, signal
from drivetrain.core import _native
from drivetrain.core.segments import Segment
segment = Segment.create("mutex", 4096)
mutex = _native.Mutex(segment.payload, 0, initialize=True)
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        mutex.__enter__()
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    with mutex as owner_died:
        print(owner_died)
    with mutex as owner_died:
        print(owner_died)
""").split()
        == ["True", "False"] * 3
    )


def test_a_repairer_that_dies_too_passes_the_news_on():
    assert run_in_child("""
import os, signal
from drivetrain.core import _native
from drivetrain.core.segments import Segment
segment = Segment.create("mutex", 4096)
mutex = _native.Mutex(segment.payload, 0, initialize=True)
for number in range(3):
    pid = os.fork()
    if pid == 0:
        assert mutex.__enter__() == (number > 0)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
with mutex as owner_died:
    print(owner_died)
""").split() == ["True"]


def hold_and_stop(handle):
    with Segment.attach(handle, "mutex") as segment, _native.Mutex(segment.payload, 0, initialize=False):
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(1000)


@contextmanager
def held_by_a_stopped_process(segment):
    """Another process has the mutex, and does not go on; gives its process id."""
    holder = SPAWN.Process(target=hold_and_stop, args=(segment.handle(),))
    holder.start()
    assert os.WIFSTOPPED(os.waitpid(holder.pid, os.WUNTRACED)[1])
    try:
        yield holder.pid
    finally:
        holder.kill()
        holder.join()


def test_a_wait_for_a_mutex_whose_holder_was_stopped_ends_in_time_and_the_holder_is_known():
    segment, mutex = mutex_segment()
    with mutex.within(0) as entered:
        assert entered
    with held_by_a_stopped_process(segment) as pid:
        for timeout_s in (0, 0.3):
            start_s = time.monotonic()
            with mutex.within(timeout_s) as entered:
                assert not entered
            assert timeout_s <= time.monotonic() - start_s < timeout_s + 5
        assert mutex.holder == pid
    with mutex.within(5) as entered:
        assert entered
    assert mutex.holder == 0


AHEAD_BY_AN_HOUR = r"""
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
  long result = syscall(SYS_clock_gettime, clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += 3600;
  return (int)result;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, cc")
def test_a_wait_for_a_mutex_ends_in_time_though_somebody_sets_the_clock_back_by_an_hour(tmp_path):
    """The process takes it to be an hour later than the kernel does, as if it had been set back since it asked."""
    source, shim = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(AHEAD_BY_AN_HOUR)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source], check=True)
    out = run_in_child(
        """
import os, time
from drivetrain.core import _native
from drivetrain.core.segments import Segment
segment = Segment.create("mutex", 4096)
mutex = _native.Mutex(segment.payload, 0, initialize=True)
ready, told = os.pipe()
holder = os.fork()
if holder == 0:
    with mutex:
        os.write(told, b"x")
        time.sleep(60)
    os._exit(0)
os.read(ready, 1)
with mutex.within(0.2) as entered:
    print(entered)
os.kill(holder, 9)
""",
        env={"LD_PRELOAD": str(shim)},
    )
    assert out.split() == ["False"]


def test_ctrl_c_ends_a_wait_for_a_mutex_whose_holder_was_stopped(pythons_own_interrupts):
    segment, mutex = mutex_segment()
    with held_by_a_stopped_process(segment):
        for wait in (mutex, mutex.within(1000)):
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt), wait:
                raise AssertionError("it has the lock")
    with mutex as owner_died:
        assert owner_died


def test_a_mutex_is_not_made_outside_its_buffer_or_unaligned():
    segment = Segment.create("mutex", 100)
    for offset in (64, 100, 2**63):
        with pytest.raises(ValueError, match="expected 64 bytes at offset"):
            _native.Mutex(segment.payload, offset, initialize=True)
    with pytest.raises(ValueError, match="aligned"):
        _native.Mutex(segment.payload, 8, initialize=True)
    with pytest.raises((TypeError, BufferError)):
        _native.Mutex(bytes(64), 0, initialize=True)


# --- Broadcast

PAYLOAD = 4096


def channel(segment):
    return _native.Broadcast(segment.payload, 0, PAYLOAD)


def broadcast_segment():
    return Segment.create("weights", _native.Broadcast.nbytes_for(PAYLOAD))


def test_an_empty_channel_has_version_zero_and_leaves_the_reader_its_bytes():
    with broadcast_segment() as segment:
        out = bytearray(b"x" * PAYLOAD)
        assert (channel(segment).version, channel(segment).read(out)) == (0, 0)
        assert out == b"x" * PAYLOAD


def test_a_reader_gets_the_latest_version():
    with broadcast_segment() as segment:
        writer, reader, out = channel(segment), channel(segment), bytearray(PAYLOAD)
        for version in range(1, 6):
            assert writer.publish(bytes([version]) * PAYLOAD) == version
            assert reader.version == reader.read(out) == version
            assert out == bytes([version]) * PAYLOAD


def test_payloads_of_another_size_are_refused():
    with broadcast_segment() as segment:
        for nbytes in (PAYLOAD - 1, PAYLOAD + 1, 0):
            with pytest.raises(ValueError, match=f"expected a payload of {PAYLOAD} bytes, got {nbytes}"):
                channel(segment).publish(bytes(nbytes))
            with pytest.raises(ValueError, match=f"expected a payload of {PAYLOAD} bytes, got {nbytes}"):
                channel(segment).read(bytearray(nbytes))
        with pytest.raises((TypeError, BufferError)):
            channel(segment).read(bytes(PAYLOAD))
        assert channel(segment).version == 0


def publish_for_ever(handle):
    segment = Segment.attach(handle, "weights")
    writer, version = channel(segment), channel(segment).version
    words = np.empty(PAYLOAD // 8, np.uint64)
    while True:
        version += 1
        words[:] = version
        writer.publish(words)


@pytest.mark.release
def test_no_reader_sees_a_torn_payload_and_a_killed_publisher_leaves_the_last():
    with broadcast_segment() as segment:
        reader, words = channel(segment), np.zeros(PAYLOAD // 8, np.uint64)
        for _ in range(3):
            child = SPAWN.Process(target=publish_for_ever, args=(segment.handle(),), daemon=True)
            child.start()
            first = reader.version
            last, num_versions, num_reads = first, 0, 0
            while num_versions < 30 or num_reads < 5000:  # on one busy core, a version per time slice
                num_reads += 1
                version = reader.read(words)
                assert version >= last
                if version:
                    assert (words == version).all()
                num_versions += version > last
                last = version
            child.kill()
            child.join()
            assert child.exitcode == -signal.SIGKILL
            version = reader.read(words)
            assert version >= last
            assert (words == version).all()


# --- Futex


def test_a_word_that_differs_already_is_not_waited_for():
    with Segment.create("word", 64) as segment:
        assert _native.futex_wait(segment.payload, 0, 5, 60.0) is True


def test_waiting_ends_with_the_timeout():
    with Segment.create("word", 64) as segment:
        assert _native.futex_wait(segment.payload, 0, 0, 0.01) is False
        assert _native.futex_wait(segment.payload, 4, 0, 0.0) is False


def wake(handle):
    with Segment.attach(handle, "word") as segment:
        _native.futex_wake(segment.payload, 8)


def test_a_wake_in_another_process_ends_the_wait():
    with Segment.create("word", 64) as segment:
        child = SPAWN.Process(target=wake, args=(segment.handle(),))
        child.start()
        assert _native.futex_wait(segment.payload, 8, 0, 120.0) is True
        assert np.frombuffer(segment.payload, np.uint32)[2] == 1
        child.join()


def test_a_futex_outside_the_buffer_or_unaligned_is_refused():
    with Segment.create("word", 64) as segment:
        for offset in (61, 64, 2):
            with pytest.raises(ValueError, match="offset"):
                _native.futex_wait(segment.payload, offset, 0, 0.0)
            with pytest.raises(ValueError, match="offset"):
                _native.futex_wake(segment.payload, offset)


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan")])
def test_a_wait_without_a_positive_timeout_times_out_at_once(timeout_s):
    with Segment.create("wait", 4096) as segment:
        assert not _native.futex_wait(segment.payload, 0, 0, timeout_s)
