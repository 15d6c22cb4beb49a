"""A process that leaves without taking its modules apart loses nothing."""

import subprocess
import sys


def test_what_runs_at_the_end_of_an_interpreter_runs_when_a_process_leaves(tmp_path):
    program = f"""
import atexit, concurrent.futures, pathlib, tempfile, threading, time
from drivetrain.core.processes import leave

kept = tempfile.TemporaryDirectory(dir={str(tmp_path)!r})
executor = concurrent.futures.ThreadPoolExecutor(2)
executor.submit(print, "an executor whose threads would wait for ever").result()
atexit.register(print, "what is registered")

def at_work():
    time.sleep(0.2)
    print("a thread that is waited for", end="")

threading.Thread(target=at_work).start()
leave()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "an executor whose threads would wait for ever",
        "a thread that is waited forwhat is registered",
    ]
    assert not list(tmp_path.iterdir()), "a temporary folder is removed"


def test_threads_that_do_not_end_are_left_after_a_while_and_named():
    program = """
import atexit, threading, time
from drivetrain.core.processes import leave

atexit.register(print, "what is registered")
threading.Thread(target=time.sleep, args=(1000,), name="a simulator").start()
leave(patience_s=0.2)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "what is registered\n")
    assert done.stderr == "ended, though threads go on that were waited for: a simulator\n"


def test_what_is_registered_is_called_as_long_as_there_is_patience():
    program = """
import atexit, multiprocessing, time
from drivetrain.core.processes import leave

multiprocessing.Process(target=time.sleep, args=(2,)).start()
atexit.register(print, "what was registered later", flush=True)
leave(patience_s=0.2)
"""
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.wait(timeout=60) == 0  # its child has the pipes, too
    out, err = process.communicate()
    assert out == "what was registered later\n"
    assert err.startswith("ended, though what was registered with atexit, as by a process that multiprocessing waits")
