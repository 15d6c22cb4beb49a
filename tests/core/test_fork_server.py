"""A fork server imports once, and forks processes that end, fail and are ended like any others."""

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from drivetrain.core.errors import RunError
from drivetrain.core.fork_server import ForkServer
from drivetrain.core.processes import end, succeeds_anew
from live_processes import wait_until_dead

# What runs as the server and in its forks: each does what it is told, with what it has imported.
PROGRAM = """
import json, os, signal, sys, threading, time
from pathlib import Path
import numpy as np
from drivetrain.core.fork_server import Service, serve
from drivetrain.core.processes import told

def num_open():
    files = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(not file.is_symlink() or "libffi" not in str(file.readlink()) for file in files)  # which opens itself

def about():
    return {
        "pid": os.getpid(), "parent": os.getppid(), "group": os.getpgid(0), "variable": os.environ["LETTER"],
        "open": num_open(), "imported": IMPORTED, "number": int(np.random.randint(2**31)),
    }

files, IMPORTED, task = list(map(int, sys.argv[1:])), os.getpid(), told()
if isinstance(task, Service):
    {preparation}
    files = serve(task, "own_program")
    task = told()
exec(task)
"""


@pytest.fixture
def serving(tmp_path, monkeypatch):
    """Makes fork servers that run PROGRAM, and what they print."""
    monkeypatch.syspath_prepend(str(tmp_path))
    log = tmp_path / "log"
    with contextlib.ExitStack() as stack:

        def make(preparation="pass"):
            (tmp_path / "own_program.py").write_text(PROGRAM.replace("{preparation}", preparation))
            with log.open("ab") as file:
                server = ForkServer("own_program", environment={"OPENBLAS_NUM_THREADS": "1"}, log=file)
            return stack.enter_context(contextlib.closing(server))

        yield make


def begin(server, tmp_path, task, files=(), name="out"):
    with (tmp_path / name).open("wb") as out:
        return server.begin(task, environment={"LETTER": "x"}, stdout=out, stderr=out, files=files)


@pytest.mark.parametrize("has_threads", [False, True])
def test_a_process_gets_what_it_is_told_variables_and_files_and_is_the_first_of_its_group(
    serving, tmp_path, has_threads
):
    thread = "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
    server = serving(thread if has_threads else "pass")
    reading, writing = os.pipe()
    try:
        task = "print(json.dumps(about()), flush=True); os.write(files[0], b'through the pipe')"
        processes = [begin(server, tmp_path, task, [writing], f"out{index}") for index in range(2)]
        assert [process.wait(60) for process in processes] == [0, 0]
        assert os.read(reading, 100) == b"through the pipe" * 2
    finally:
        os.close(reading)
        os.close(writing)
    told = [json.loads((tmp_path / f"out{index}").read_text()) for index in range(2)]
    for process, about in zip(processes, told, strict=True):
        assert (about["pid"], about["group"], about["variable"]) == (process.pid, process.pid, "x")
        assert about["parent"] == server._process.pid
        assert about["open"] == 3 + 1 + 1, (
            "and nothing beside its own: standard files, the pipe, the folder it looks at"
        )
        assert about["imported"] == (process.pid if has_threads else about["parent"])
    assert told[0]["number"] != told[1]["number"], "NumPy's common generator is each one's own"


@pytest.mark.parametrize(
    ("task", "code"),
    [("sys.exit(3)", 3), ("raise ValueError('no')", 1), ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM)],
)
def test_the_exit_code_says_how_a_process_ended(serving, tmp_path, task, code):
    process = begin(serving(), tmp_path, task)
    assert process.wait(60) == code
    assert process.poll() == code
    assert process.how_ended() == ("was killed by SIGTERM" if code < 0 else f"ended with exit code {code}")
    assert ("ValueError: no" in (tmp_path / "out").read_text()) == (code == 1)
    process.kill()  # of one that has ended, nothing


def test_a_process_that_runs_has_no_exit_code_and_can_be_ended_with_its_group(serving, tmp_path):
    task = "import subprocess; print(subprocess.Popen(['sleep', '1000']).pid, flush=True); time.sleep(1000)"
    process = begin(serving(), tmp_path, task)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired, match=str(process.pid)):
        process.wait(0.01)
    deadline = time.monotonic() + 60
    while not (words := (tmp_path / "out").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    end(process)
    assert process.returncode == -signal.SIGKILL
    wait_until_dead([words.strip()])


def test_all_processes_end_with_their_server_and_it_ends_with_its_owner(serving, tmp_path):
    server = serving()
    process = begin(server, tmp_path, "time.sleep(1000)")
    os.kill(server._process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert process.how_ended() == "ended with the process that begins the others, which was killed by SIGKILL"
    wait_until_dead([process.pid])
    with pytest.raises(RunError, match=r"the process that begins the others was killed by SIGKILL \(log: .*log\)"):
        begin(server, tmp_path, "pass")

    program = (
        "import os, signal\n"
        "from drivetrain.core.fork_server import ForkServer\n"
        f"log = open({os.devnull!r}, 'wb')\n"
        "server = ForkServer('own_program', environment={}, log=log)\n"
        "process = server.begin('time.sleep(1000)', environment={}, stdout=log, stderr=log)\n"
        "print(server._process.pid, process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_until_dead(done.stdout.split())


def test_a_server_that_is_stopped_holds_nobody_up(serving, tmp_path):
    server = serving()
    process = begin(server, tmp_path, "time.sleep(1000)")
    os.kill(server._process.pid, signal.SIGSTOP)
    end(process)
    assert process.returncode == -signal.SIGKILL
    os.kill(server._process.pid, signal.SIGSTOP)
    assert begin(server, tmp_path, "sys.exit(4)").wait(60) == 4


def test_closing_a_server_ends_its_processes(serving, tmp_path):
    server = serving()
    process = begin(server, tmp_path, "time.sleep(1000)")
    server.close()
    assert process.wait(60) == -signal.SIGKILL
    wait_until_dead([process.pid])


def test_a_server_that_cannot_import_says_where_the_reason_is(serving, tmp_path):
    server = serving("import no_such_module")
    with pytest.raises(RunError, match=r"the process that begins the others ended with exit code 1 \(log: .*log\)"):
        begin(server, tmp_path, "pass")
    assert "no_such_module" in (tmp_path / "log").read_text()


def test_what_cannot_be_told_leaves_nothing_open(serving, tmp_path):
    server = serving()
    before = os.listdir("/proc/self/fd")
    with pytest.raises((AttributeError, pickle.PicklingError)):
        begin(server, tmp_path, lambda: None)
    assert os.listdir("/proc/self/fd") == before
    assert begin(server, tmp_path, "sys.exit(4)").wait(60) == 4


def test_a_system_without_room_for_a_process_says_so_and_the_server_goes_on(serving, tmp_path):
    server = serving(
        "fork = os.fork\n    def full(): os.fork = fork; raise BlockingIOError(11, 'no room')\n    os.fork = full"
    )
    with pytest.raises(RunError, match="the system lets no process begin: Resource temporarily unavailable"):
        begin(server, tmp_path, "pass")
    assert begin(server, tmp_path, "sys.exit(4)").wait(60) == 4


def test_an_owner_with_many_files_open_is_served(serving, tmp_path, many_open_files):
    server = serving()
    assert server._socket.fileno() > 1_023
    assert begin(server, tmp_path, "sys.exit(4)").wait(60) == 4


def test_an_owner_that_ignores_the_ends_of_its_children_is_told_those_of_its_forks(serving, tmp_path, ignored_ends):
    server = serving()
    of_a_child = "import subprocess; sys.exit(subprocess.run(['sh', '-c', 'exit 5']).returncode)"
    for task, code in {"sys.exit(4)": 4, of_a_child: 5, "pass": 0}.items():
        assert begin(server, tmp_path, task).wait(60) == code
    process = begin(server, tmp_path, "time.sleep(1000)")
    os.kill(server._process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert process.how_ended().endswith("the others, which ended (nobody is told how where SIGCHLD is ignored)")


def test_a_new_interpreter_finds_what_lies_in_a_folder_with_a_colon_whatever_else_is_in_the_path(tmp_path, monkeypatch):
    folder = tmp_path / "run 10:30"
    folder.mkdir()
    (folder / "lies_there.py").touch()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(
        sys, "path", [str(folder), tmp_path, b"bytes", *sys.path]
    )  # paths and bytes, which import skips
    assert succeeds_anew("import lies_there, drivetrain")
