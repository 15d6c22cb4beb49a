"""The clock of a run: all processes in, evaluations out."""

import subprocess
import sys
import time
from contextlib import suppress

import pytest

from drivetrain.bench.train import stopwatch
from drivetrain.bench.train.stopwatch import Stopwatch, cpu_seconds

BUSY = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\nimport sys; sys.stdin.read()"


class Clocks:
    """Both clocks of a watch, moved by hand."""

    def __init__(self, monkeypatch):
        self.cpu_s, self.wall_s = 100.0, 1000.0
        monkeypatch.setattr(stopwatch, "cpu_seconds", lambda: self.cpu_s)
        monkeypatch.setattr(stopwatch, "wall_seconds", lambda: self.wall_s)

    def move(self, cpu_s, wall_s):
        self.cpu_s += cpu_s
        self.wall_s += wall_s


@pytest.fixture
def clocks(monkeypatch):
    return Clocks(monkeypatch)


def test_a_watch_runs_from_its_making_by_both_clocks(clocks):
    watch = Stopwatch()
    clocks.move(2, 3)
    assert watch.read() == (2, 3)
    clocks.move(1, 1)
    assert watch.read() == (3, 4)


def test_a_pause_is_in_neither_time_even_when_it_ends_in_an_error(clocks):
    watch = Stopwatch()
    clocks.move(2, 3)
    with watch.paused():
        clocks.move(10, 20)
    clocks.move(1, 1)
    with suppress(KeyError), watch.paused():
        clocks.move(10, 20)
        raise KeyError
    assert watch.read() == (3, 4)


def test_a_stopped_watch_stays_as_it_is(clocks):
    watch = Stopwatch()
    clocks.move(2, 3)
    watch.stop()
    clocks.move(1, 1)
    watch.stop()
    assert watch.read() == (2, 3)


def test_a_watch_moves_with_the_clocks_of_this_machine():
    watch = Stopwatch()
    begin = time.process_time()
    while time.process_time() - begin < 0.1:
        pass
    first, second = watch.read(), watch.read()
    assert 0.09 <= first[0] <= second[0], "this process has computed so long at least"
    assert 0 < first[1] <= second[1]


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
