"""What the tests run in other processes. Imported by spawned children, so it imports little."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from drivetrain.core.errors import Closed, NotEnoughData
from drivetrain.core.processes import die_with
from drivetrain.replay import Replay, _native
from drivetrain.replay.testing import TaggedRows, TaggedStacks, check_consistent
from strictness import STRICT

ROOT = Path(__file__).parents[2]


def run_script(text, *arguments, stdin=b"", check=True):
    """Run Python text in a process unrelated to this one; returns its standard output."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # single-threaded, so that it may fork
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, *STRICT, "-c", text, *map(str, arguments)],
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
        [sys.executable, *STRICT, "-c", text, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )


def forked(function, *arguments):
    """Run a function in a forked child of this single-threaded process, which it does not outlive; returns its pid."""
    parent, pid = os.getpid(), os.fork()
    if pid:
        return pid
    code = 1
    try:
        die_with(parent)  # a test that runs out of time is killed
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


def tagged_for(replay, num_bytes):
    """The checker for a replay with its spec: of rows, or of stacks if it shares observations."""
    stack = replay._schema.frame_stack
    return TaggedStacks(num_bytes, stack=stack) if stack else TaggedRows(num_bytes)


def tags_at(tagged, first_tag, num_envs, t):
    """Tags of step t of a writer: of its environments' streams where episodes matter."""
    if isinstance(tagged, TaggedRows):
        return first_tag + t * num_envs + np.arange(num_envs)
    return ((first_tag + np.arange(num_envs, dtype=np.uint64)) << np.uint64(32)) + np.uint64(t)


def write_rows(replay, num_rows, *, first_tag=0, num_envs=8, num_bytes=64):
    tagged, writer = tagged_for(replay, num_bytes), replay.writer(num_envs)
    for t in range(-(-num_rows // num_envs)):
        writer.add(**tagged.step(tags_at(tagged, first_tag, num_envs, t)))


def attach_and_write(handle, num_rows, first_tag):
    with Replay.attach(handle) as replay:
        write_rows(replay, num_rows, first_tag=first_tag)


def write_for_ever(replay, num_envs, num_bytes, seed):
    tagged, writer, t = tagged_for(replay, num_bytes), replay.writer(num_envs), 0
    first_tag = seed << (40 if isinstance(tagged, TaggedRows) else 8)  # streams beyond those of write_rows
    while True:
        writer.add(**tagged.step(tags_at(tagged, first_tag, num_envs, t)))
        t += 1


def learn_for_ever(replay, batch_size, num_bytes, seed):
    tagged, rng, out = tagged_for(replay, num_bytes), np.random.default_rng(seed), None
    prioritized = replay._settings.prioritized
    while True:
        try:
            out = replay.sample(batch_size, out=out, mode="iid" if rng.random() < 0.5 else "stratified")
        except NotEnoughData:
            continue
        tagged.check(out)
        if prioritized:
            replay.update_priorities(out.keys, rng.pareto(1.0, batch_size))


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    return wait_for(pid)


def generations(replay):
    """The generation of every row, read without the lock: odd while it is being written."""
    memory, stride = np.frombuffer(replay._segment.payload, np.uint8), replay._schema.row_stride
    rows_only = {**replay._settings.native(), "num_frames": 0}
    end = _native.table_nbytes(rows_only)
    return np.ascontiguousarray(memory[end - replay.capacity * stride : end].reshape(-1, stride)[:, :4]).view(
        np.uint32
    )[:, 0]


def stop_while_it_writes(replay, pid):
    """SIGSTOP a writing child at a moment when it has rows in flight and does not hold the lock."""
    rng = np.random.default_rng(0)
    lock_word = np.frombuffer(replay._segment.payload, np.uint32, count=1, offset=_native.LOCK_OFFSET)
    while True:
        os.kill(pid, signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
        if lock_word[0] == 0 and (generations(replay) % 2).any():
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(rng.random() * 0.005)  # stopped again at once, it would hardly come on


def in_flight(replay):
    return int((generations(replay) % 2).sum())


def kill_at_random(replay, seed, *, num_kills, seconds, num_bytes, num_actors=2, num_learners=2):
    """Kill writing and learning children at random and start new ones; returns the number of kills.

    Ends after num_kills and not before `seconds`. After each kill, both inserts and draws must go on.
    """
    rng = np.random.default_rng(seed)
    end = time.monotonic() + seconds

    def start(index):
        if index < num_actors:
            return forked(write_for_ever, replay, 32, num_bytes, int(rng.integers(1, 2**20)))
        return forked(learn_for_ever, replay, 64, num_bytes, int(rng.integers(2**20)))

    pids = [start(index) for index in range(num_actors + num_learners)]
    kills = 0
    while kills < num_kills or time.monotonic() < end:
        time.sleep(rng.random() * 0.004)  # so that they are killed anywhere
        index = int(rng.integers(len(pids)))
        assert kill(pids[index]) == -signal.SIGKILL, "a child had ended by itself"
        kills += 1
        wait_for_progress(replay)
        pids[index] = start(index)
    for pid in pids:
        assert kill(pid) == -signal.SIGKILL, "a child had ended by itself"
    return kills + len(pids)


def waiting_for(participation):
    """A thread that acquires, and the sentences by which it is told that it cannot."""
    errors = []

    def wait():
        try:
            participation.acquire()
        except Closed as error:
            errors.append(str(error))

    return threading.Thread(target=wait), errors


def wait_for_progress(replay):
    """Return when rows were added and draws made; a stall is an error after a long while."""
    before, start = replay._table.stats(), time.monotonic()
    while True:
        now = replay._table.stats()
        if all(now[name] > before[name] for name in ("num_inserted", "random_block")):
            return
        assert time.monotonic() - start < 100, "stalled"


def report_kills(seed, num_kills, seconds, prioritized, stack=0):
    """The random kill test, for a process that has one thread and no other children."""
    num_bytes = 3000
    sharing = {"share_next_obs": True, "frame_stack": stack} if stack else {}
    spec = TaggedStacks(num_bytes, stack=stack).spec if stack else TaggedRows(num_bytes).spec
    before = os.listdir("/dev/shm")
    replay = Replay(1000, spec, shared=True, prioritized=prioritized, **sharing)
    write_rows(replay, 1000, num_bytes=num_bytes)
    kills = kill_at_random(replay, seed, num_kills=num_kills, seconds=seconds, num_bytes=num_bytes)
    check_consistent(replay)
    orphans = in_flight(replay)
    assert len(replay) == replay.capacity - orphans
    write_rows(replay, 1000, num_bytes=num_bytes)
    assert len(replay) == replay.capacity, "orphaned slots were not used again"
    check_consistent(replay)
    tagged = tagged_for(replay, num_bytes)
    sample = replay.sample(1000)
    tagged.check(sample)
    assert sorted(sample.data["tag"]) == sorted(np.concatenate([tags_at(tagged, 0, 8, t) for t in range(125)]))
    try:
        os.waitpid(-1, os.WNOHANG)
        raise AssertionError("a child is left")
    except ChildProcessError:
        pass
    repairs = replay._table.stats()["num_repairs"]
    replay.close()
    assert b"memfd:drivetrain-" not in Path("/proc/self/maps").read_bytes(), "memory is left"
    assert not [name for name in os.listdir("/dev/shm") if "drivetrain" in name and name not in before]
    sys.stdout.write(f"{kills} kills, {orphans} orphans at the end, {repairs} repairs\n")
