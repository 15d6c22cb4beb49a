"""A thread that does not say that it ended was in what it was in for as long as others of its process recorded."""

import subprocess
import sys
import threading
import time

from programs import profiled_text

from drivetrain import scope
from drivetrain.scope import summing
from drivetrain.scope.process import leave
from drivetrain.scope.session import end
from drivetrain.scope.totals import Totals

LIVES = """
import sys, threading, time
from drivetrain import scope

def work():
    while True:
        with scope.operation("simulation"):
            time.sleep(0.005)

with scope.session(sys.argv[1], calibrate_every=0):
    threading.Thread(target=work, daemon=True).start()
    with scope.operation("backpropagation"):
        print("inside", flush=True)
        time.sleep(100)
"""


def spent_by_main(profile):
    return {(row.operation, row.time_class): row.raw_ns for row in profile.breakdown() if row.thread == "main"}


def test_a_long_operation_of_a_program_that_runs_or_was_killed_is_no_idle_time(tmp_path):
    with subprocess.Popen([sys.executable, "-c", LIVES, tmp_path / "run"], stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == b"inside\n"
            time.sleep(0.3)
            profiles = [scope.load(tmp_path / "run")]
        finally:
            program.kill()
    for profile in [*profiles, scope.load(tmp_path / "run")]:
        spent = spent_by_main(profile)
        assert spent["backpropagation", "python"] > 0.2e9
        assert sum(spent.values()) == profile.wall_ns
        assert ("other", "idle") not in spent or spent["other", "idle"] < spent["backpropagation", "python"] / 2
        (note,) = profile.notes
        assert "not ended" in note
        assert "each process is shown as idle from its own on" in note


def test_what_outlasts_a_session_that_ends_is_in_its_operation_to_the_end(tmp_path):
    go_on, inside = threading.Event(), threading.Event()

    def wait():
        with scope.operation("mine"):
            inside.set()
            go_on.wait()

    thread = threading.Thread(target=wait)
    try:
        with scope.session(tmp_path / "run", calibrate_every=0):
            thread.start()
            inside.wait()
            time.sleep(0.2)
        profile = scope.load(tmp_path / "run")
    finally:
        go_on.set()
        thread.join()
    (row,) = (row for row in profile.breakdown() if row.operation == "mine")
    assert row.raw_ns > 0.15e9
    assert profile.notes == (), "nothing of it is missing"


def test_sums_of_a_thread_that_outlasts_a_session_are_not_those_of_a_killed_one(tmp_path):
    go_on, inside = threading.Event(), threading.Event()

    @scope.operation("mine")
    def wait():
        inside.set()
        go_on.wait()

    thread, folder = threading.Thread(target=wait), tmp_path / "sums"
    summing.create(folder)
    summing.join(folder, name="program")
    try:
        thread.start()
        inside.wait()
        leave(folder)
        end(folder)
        assert Totals.load([folder]).notes == []
    finally:
        go_on.set()
        thread.join()


KILLED = """
import os, signal, threading, time
from drivetrain import scope

threading.Thread(target=time.sleep, args=[100], daemon=True).start()
with scope.operation("update"):
    time.sleep(0.2)
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
"""


def test_a_profiled_program_that_is_killed_was_in_its_operation_until_then(tmp_path):
    profiled_text(tmp_path / "run", KILLED, check=False)
    profile = scope.load(tmp_path / "run")
    assert spent_by_main(profile)["update", "python"] > 0.25e9
    for thread in {row.thread for row in profile.breakdown()}:
        assert sum(row.raw_ns for row in profile.breakdown() if row.thread == thread) == profile.wall_ns
    assert profile.notes == ()


WORKERS = """
import sys, time
from drivetrain import scope

def work():
    with scope.operation("simulation"):
        pass
    time.sleep(0.1)

with scope.session(sys.argv[1]):
    import multiprocessing
    worker = multiprocessing.get_context("fork").Process(target=work)
    worker.start()
    worker.join()
"""


def test_a_forked_worker_of_multiprocessing_ends_when_its_function_has_returned(tmp_path):
    subprocess.run([sys.executable, "-c", WORKERS, tmp_path / "run"], check=True)
    profile = scope.load(tmp_path / "run")
    _, worker = profile.trace.process_names
    spent = {(row.operation, row.time_class): row.raw_ns for row in profile.breakdown() if row.process == worker}
    assert spent["other", "python"] > 0.1e9
    assert profile.notes == ()
