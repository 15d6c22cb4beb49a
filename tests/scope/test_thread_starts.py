"""What a thread does before it enters its first operation is its own time, and no idling."""

import threading
import time

import pytest

from drivetrain import scope
from drivetrain.scope import summing
from drivetrain.scope.process import leave
from drivetrain.scope.session import end
from drivetrain.scope.totals import Totals

BUSY_S = 0.05


def work():
    until = time.thread_time() + BUSY_S
    while time.thread_time() < until:
        pass


def in_a_thread(do):
    thread = threading.Thread(target=do, name="worker")
    thread.start()
    thread.join()


def seconds_outside(folder):
    """What threads but the main one did outside of all operations."""
    rows = scope.load(folder).breakdown()
    main = {row.thread for row in rows if row.operation == "main"}
    others = [row for row in rows if row.thread not in main]
    return sum(row.raw_ns for row in others if (row.operation, row.time_class) == ("other", "python")) / 1e9


def test_work_before_the_first_operation_of_a_thread_counts_and_waiting_does_not(tmp_path):
    def late():
        work()
        time.sleep(0.2)
        with scope.operation("replay"):
            work()

    with scope.session(tmp_path / "s"), scope.operation("main"):
        in_a_thread(late)
    assert BUSY_S <= seconds_outside(tmp_path / "s") < BUSY_S + 0.1


def test_a_thread_that_began_before_the_recording_has_nothing_from_before_its_first_operation(tmp_path):
    may_go_on = threading.Event()

    def early():
        work()
        may_go_on.wait()
        with scope.operation("replay"):
            work()

    thread = threading.Thread(target=early)
    thread.start()
    time.sleep(2 * BUSY_S)
    with scope.session(tmp_path / "s"), scope.operation("main"):
        time.sleep(2 * BUSY_S)
        may_go_on.set()
        thread.join()
    assert seconds_outside(tmp_path / "s") < BUSY_S / 2


def test_sums_begin_with_it_too(tmp_path):
    def late():
        work()
        with scope.operation("replay"):
            pass

    folder = tmp_path / "sums"
    summing.create(folder)
    summing.join(folder, name="program")
    try:
        in_a_thread(late)
    finally:
        leave(folder)
        end(folder)
    spent = {
        row.operation: row.ns / 1e9 for row in Totals.load([folder]).rows if row.process == "program, other threads"
    }
    assert spent["other"] == pytest.approx(BUSY_S, abs=0.04)
