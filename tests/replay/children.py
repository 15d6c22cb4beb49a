"""What the tests run in other processes. Imported by spawned children, so it imports little."""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from drivetrain.core.errors import NotEnoughData
from drivetrain.replay import Replay
from drivetrain.replay.testing import TaggedRows

ROOT = Path(__file__).parents[2]


def run_script(text, *arguments, stdin=b"", check=True):
    """Run Python text in a process unrelated to this one; returns its standard output."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # single-threaded, so that it may fork
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env=environment,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}\n{done.stderr.decode()}")
    return done.stdout.decode()


def started_script(text, *arguments):
    """The same as a running process with pipes; `with` ends it."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", text, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )


def forked(function, *arguments):
    """Run a function in a forked child of this single-threaded process; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        function(*arguments)
        code = 0
    except BaseException as error:  # a child must not run on in its parent's code
        sys.stderr.write(f"{function.__name__}: {error!r}\n")
    finally:
        os._exit(code)


def wait_for(pid):
    """Reap a child; its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def handle_from_stdin():
    return pickle.loads(sys.stdin.buffer.read())


def write_rows(replay, num_rows, *, first_tag=0, num_envs=8, num_bytes=64):
    tagged, writer = TaggedRows(num_bytes), replay.writer(num_envs)
    for start in range(first_tag, first_tag + num_rows, num_envs):
        writer.add(**tagged.step(np.arange(start, start + num_envs)))


def attach_and_write(handle, num_rows, first_tag):
    with Replay.attach(handle) as replay:
        write_rows(replay, num_rows, first_tag=first_tag)


def write_for_ever(replay, num_envs, num_bytes, seed):
    tagged, writer, tag = TaggedRows(num_bytes), replay.writer(num_envs), seed << 40
    while True:
        writer.add(**tagged.step(np.arange(tag, tag + num_envs)))
        tag += num_envs


def learn_for_ever(replay, batch_size, num_bytes, seed):
    tagged, rng, out = TaggedRows(num_bytes), np.random.default_rng(seed), None
    while True:
        if len(replay) < batch_size:  # others may be overwriting nearly all of it
            continue
        try:
            out = replay.sample(batch_size, out=out, mode="iid" if rng.random() < 0.5 else "stratified")
        except NotEnoughData:
            continue
        tagged.check(out)
        replay.update_priorities(out.keys, rng.pareto(1.0, batch_size))


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    return wait_for(pid)
