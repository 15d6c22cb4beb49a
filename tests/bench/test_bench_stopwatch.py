"""The clock of a run: all processes in, evaluations out."""

import subprocess
import sys
import time

import pytest

from drivetrain.bench.train.stopwatch import Stopwatch, cpu_seconds

BUSY = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\nimport sys; sys.stdin.read()"


def spin(seconds):
    start = time.process_time()
    while time.process_time() - start < seconds:
        pass


def test_the_watch_counts_what_this_process_computes():
    watch = Stopwatch()
    spin(0.1)
    cpu_s, wall_s = watch.read()
    assert 0.09 <= cpu_s < 5.0
    assert wall_s >= 0.09


def test_a_pause_is_in_neither_time():
    watch = Stopwatch()
    start = time.perf_counter()
    with watch.paused():
        spin(0.3)
    whole_s = time.perf_counter() - start
    cpu_s, wall_s = watch.read()
    assert cpu_s < 0.2
    assert wall_s < whole_s - 0.25


def test_a_stopped_watch_stays_as_it_is():
    watch = Stopwatch()
    watch.stop()
    times = watch.read()
    spin(0.05)
    watch.stop()
    assert watch.read() == times


def test_a_child_counts_while_it_lives_and_after_it_ended():
    before = cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alive = cpu_seconds() - before
    ended = cpu_seconds() - before
    assert alive >= 0.25
    assert ended >= 0.28
    assert ended == pytest.approx(alive, abs=0.3)
