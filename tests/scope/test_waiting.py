"""Waiting is a class of its own, in whatever operation is around, and builtins stay builtins."""

from programs import entered, profiled_text

from drivetrain import scope

THREADS = """
import concurrent.futures, inspect, queue, threading, time
from drivetrain import scope

assert inspect.isbuiltin(time.sleep)
assert inspect.isfunction(inspect.unwrap(threading.Condition.wait)) and threading.Condition.wait.__name__ == "wait"
data, asked = queue.Queue(), threading.Event()

def answer():
    asked.wait()
    while not data.not_empty._waiters:  # until it is being waited for
        time.sleep(0.001)
    time.sleep(0.05)
    data.put("answer")

other = threading.Thread(target=answer)
other.start()
with scope.operation("ask"):
    asked.set()
    assert data.get() == "answer"
other.join()
try:
    data.get(timeout=0.01)
except queue.Empty:
    pass
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    assert pool.submit(lambda: time.sleep(0.01) or 3).result() == 3
try:
    threading.Condition().wait()
except RuntimeError as error:
    assert str(error) == "cannot wait on un-acquired lock"
"""

PROCESSES = """
import multiprocessing as mp, subprocess, sys
from drivetrain import scope

def work(asked, data, lock, done):
    asked.wait(timeout=0.01)  # nobody sets it
    with lock:
        data.put(b"x" * 100_000)
    done.acquire()

if __name__ == "__main__":
    context = mp.get_context("fork")
    asked, data, lock, done = context.Event(), context.Queue(), context.Lock(), context.Semaphore(0)
    child = context.Process(target=work, args=(asked, data, lock, done))
    child.start()
    with scope.operation("ask"):
        assert len(data.get()) == 100_000
        done.release()
    child.join()
    assert child.exitcode == 0
    assert subprocess.run([sys.executable, "-S", "-c", "print(1)"], capture_output=True).stdout == b"1\\n"
"""


def test_waiting_for_a_thread_is_class_wait_in_the_operation_that_waits(folder):
    profiled_text(folder, THREADS)
    counts = entered(folder)
    assert counts["Condition.wait"] >= 3, "the event, the queue twice"
    assert counts["Thread.join"] >= 1
    waited = {row.operation: row.raw_ns for row in scope.load(folder).breakdown() if row.time_class == "wait"}
    assert waited["ask"] > 10e6, "of 50 ms that the other thread sleeps"
    assert counts["waiting: sleep"] >= 2


def test_waiting_for_a_process_is_class_wait(folder):
    profiled_text(folder, PROCESSES)
    counts = entered(folder)
    for site in ("Condition.wait between processes", "lock between processes", "Connection.recv", "Process.join"):
        assert counts[site] >= 1, site
    assert counts["subprocess.wait"] >= 1
    assert ("ask", "wait") in {(row.operation, row.time_class) for row in scope.load(folder).breakdown()}


BUILTINS = """
import _thread, inspect, linecache, os, queue, select, socket, subprocess, sys, threading, time
from drivetrain import scope

for builtin in (time.sleep, select.select, os.waitpid, _thread.allocate_lock().acquire):
    assert inspect.isbuiltin(builtin), builtin
assert threading.Lock in (_thread.allocate_lock, _thread.LockType)  # from Python 3.13 on, a class in C
lock, data = threading.Lock(), queue.SimpleQueue()
one, other = socket.socketpair()
for _ in range(1000):
    with lock:  # free: nobody waits
        pass
assert lock.acquire(False)
select.select([], [], [], 0)

main = threading.main_thread().ident
sys.setswitchinterval(1000)  # who is in a line that waits has let go of the interpreter because it waits

def until_it_is_at(words):
    while True:
        frame = sys._current_frames()[main]
        if words in linecache.getline(frame.f_code.co_filename, frame.f_lineno):
            return time.sleep(0.02)
        time.sleep(0.001)

def release():
    until_it_is_at("lock.acquire()  # waits")
    lock.release()
    until_it_is_at("data.get()")
    data.put(5)
    until_it_is_at("select.select([one]")
    other.send(b"x")
    until_it_is_at('b"y"')
    other.send(b"y")

thread = threading.Thread(target=release)
with scope.operation("waits"):
    thread.start()
    lock.acquire()  # waits
    assert data.get() == 5
    assert select.select([one], [], []) == ([one], [], [])
    assert one.recv(1) == b"x"
    assert one.recv(1) == b"y"
    pid = subprocess.Popen([sys.executable, "-S", "-c", "pass"]).pid
    assert os.waitpid(pid, 0) == (pid, 0)
    try:
        time.sleep(-1)
    except ValueError:
        pass
    time.sleep(0.02)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError as error:
        assert error.errno == 10
thread.join()
"""


def test_waiting_in_builtins_is_class_wait_and_they_stay_builtins(folder):
    profiled_text(folder, BUILTINS)
    profile = scope.load(folder)
    assert not profile.trace.notes
    counts = entered(folder)
    assert counts["waiting: sleep"] >= 5
    assert 2 <= counts["waiting: lock"] < 100, "a lock that is free is not waited for"
    assert counts["waiting: select"] >= 1
    assert counts["waiting: socket"] >= 2
    assert counts["waiting: process"] == 2
    waited = {row.operation: row.raw_ns for row in profile.breakdown() if row.time_class == "wait"}
    assert waited["waits"] >= 100e6, "five times 20 ms"


TRACKED = """
import os, time
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path

memory = shared_memory.SharedMemory(create=True, size=16)  # starts the tracker, a process of its own
tracker = resource_tracker._resource_tracker._pid
while not list(Path(os.environ["DRIVETRAIN_SCOPE"]).glob(f"{tracker}-*.json")):
    time.sleep(0.01)


def used():  # its state and its CPU time
    return [Path(f"/proc/{tracker}/stat").read_text().rpartition(")")[2].split()[place] for place in (0, 11, 12)]


while not (before := used()) or time.sleep(0.3) or used() != before or before[0] != "S":
    pass  # what it does after the program has ended is no part of the session
memory.close()
memory.unlink()
"""


def test_the_process_that_tracks_resources_waits_and_does_not_compute(folder):
    profiled_text(folder, TRACKED)
    profile = scope.load(folder)
    (tracker,) = [process.pid for process in profile.trace.processes if "resource_tracker" in process.argv[-1]]
    times = {row.time_class: row.raw_ns for row in profile.breakdown() if row.process == str(tracker)}
    assert times["wait"] > 0
    assert entered(folder)["resource_tracker.main"] == 1
