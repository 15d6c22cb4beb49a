"""What a signal's handler raises reaches a recorded program wherever it was when the signal came."""

import os
import signal
import subprocess
import sys

import pytest
from programs import alone, profiled_text

from drivetrain import scope
from drivetrain.scope import _native, process


@pytest.mark.release
def test_a_signal_that_comes_during_a_garbage_collection_is_not_lost(tmp_path):
    text = """
import gc, signal, time


class Told(Exception):
    pass


def tell(*about):
    raise Told


signal.signal(signal.SIGALRM, tell)
kept = [[] for _ in range(1_000_000)]
gc.disable()  # but for the ones that are asked for
num_told = 0
for _ in range(10):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.003)
        gc.collect()
        deadline = time.monotonic() + 0.2
        while time.monotonic() < deadline:  # where the signal comes later
            pass
    except Told:
        num_told += 1
print(num_told)
"""
    done = profiled_text(tmp_path / "run.scope", text)
    assert done.stdout.decode().strip() == "10"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_a_hook_is_told_of_a_call_is_the_calls(error):
    def told():
        raise error

    recorded = _native.Wrapped(lambda: "called", _native.Span(0), told)
    with pytest.raises(error):
        recorded()


@pytest.mark.parametrize("send", [os.kill, os.killpg])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_program_once_whether_it_is_sent_to_the_profiler_alone_or_to_its_group(
    tmp_path, signum, send
):
    script = tmp_path / "program.py"
    script.write_text("""
import select, signal, sys

def tell(signum, frame):
    print(signal.Signals(signum).name, flush=True)

for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(signum, tell)
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.01)[0]:  # a signal just before a read without end would wait for that
    pass
""")
    running = subprocess.Popen(
        [sys.executable, "-m", "drivetrain.cli.main", "profile", "-o", tmp_path / "run.scope", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # as in a terminal, `timeout` and schedulers, a group of its own
        text=True,
    )
    assert running.stdin is not None
    assert running.stdout is not None
    with running:
        assert running.stdout.readline() == "ready\n"
        told: list[str] = []
        for number, how in ((signum, send), (signal.SIGUSR1, os.kill)):
            how(running.pid, number)
            told.append(running.stdout.readline().strip())
        running.stdin.close()
        rest = running.stdout.read()
    assert [*told, rest, running.returncode] == [signum.name, "SIGUSR1", "", 0]


def test_a_signal_that_the_profiler_was_told_to_ignore_is_ignored_by_the_program_until_it_says_otherwise(tmp_path):
    program = """
import os, signal, time

told = []
print([signal.getsignal(signum) == signal.SIG_IGN for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)])
signal.signal(signal.SIGHUP, lambda signum, frame: told.append(signum))
os.kill(os.getppid(), signal.SIGHUP)
while not told:
    time.sleep(0.01)
"""
    script = """
import signal, sys
from pathlib import Path
from drivetrain.scope import program

for signum in (signal.SIGHUP, signal.SIGINT):  # as `nohup` does, and a shell that starts something behind
    signal.signal(signum, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
print(program.run(Path(sys.argv[1]), ["-c", sys.argv[2]]))
"""
    done = alone(script, tmp_path / "run.scope", program)
    assert done.stdout.decode() == "[True, True, False]\n0\n"


def test_a_profiler_whose_caller_wants_to_hear_of_no_ended_process_says_how_the_program_ended(tmp_path):
    script = """
import signal, sys
from pathlib import Path
from drivetrain.scope import program

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(program.run(Path(sys.argv[1]), ["-c", sys.argv[2]]), signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN)
"""
    asks = "import signal, sys; sys.exit(3 if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN else 4)"
    done = alone(script, tmp_path / "run.scope", asks)
    assert done.stdout.decode() == "3 True\n"


def test_a_signal_that_comes_before_the_program_has_begun_reaches_it(tmp_path):
    script = """
import os, signal, subprocess, sys
from pathlib import Path
from drivetrain.scope import program

begin = subprocess.Popen
signals = [signal.SIGTERM]

def sent_meanwhile(*arguments, **options):
    if "time" in arguments[0][-1] and signals:  # it is the program's turn
        os.kill(os.getpid(), signals.pop())
    return begin(*arguments, **options)

subprocess.Popen = sent_meanwhile
print(program.run(Path(sys.argv[1]), ["-c", "import time; time.sleep(60)"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "run.scope"], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{-signal.SIGTERM}\n", done.stderr


def test_ctrl_c_between_the_claim_of_a_session_and_its_begin_leaves_the_process_free_to_record(tmp_path, monkeypatch):
    class Interrupted:
        def __enter__(self):
            pass

        def __exit__(self, *exc_info):
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(process._current, "claiming", Interrupted(), raising=False)
        with pytest.raises(KeyboardInterrupt), scope.session(tmp_path / "first"):
            pass
    with scope.session(tmp_path / "second"):
        assert process.recording_into() == (tmp_path / "second").resolve()


def test_ctrl_c_as_a_session_ends_leaves_the_process_free_to_record(tmp_path, monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), scope.session(tmp_path / "first"):
        monkeypatch.setattr(process.table, "write_to", interrupted)
    monkeypatch.undo()
    with scope.session(tmp_path / "second"):
        assert process.recording_into() == (tmp_path / "second").resolve()
