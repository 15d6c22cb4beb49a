"""One replay in many processes: attached, inherited, or refused in one clear sentence."""

import dataclasses
import gc
import multiprocessing
import os
import pickle
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from children import attach_and_write, run_script, started_script, write_rows
from filled import filled_replay, first_keys, slots_of

from drivetrain.core.errors import Closed, ForeignSegment, NotEnoughData, OwnerDead, SegmentError
from drivetrain.core.segments import Segment
from drivetrain.replay import Replay, ReplayHandle, Sequences
from drivetrain.replay.reference import ReferenceReplay
from drivetrain.replay.testing import TaggedRows, check_consistent

TAGGED = TaggedRows()


@pytest.fixture
def replay():
    with Replay(256, TAGGED.spec, shared=True, seed=5) as replay:
        yield replay


def assert_holds(replay, tags):
    sample = replay.sample(len(replay))
    TAGGED.check(sample)
    assert sorted(sample.data["tag"]) == sorted(tags)
    check_consistent(replay)


def test_a_spawned_process_writes_into_it(replay):
    child = multiprocessing.get_context("spawn").Process(target=attach_and_write, args=(replay.handle(), 64, 100))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert_holds(replay, range(100, 164))


def test_an_unrelated_process_writes_into_it(replay):
    text = "from children import *; attach_and_write(handle_from_stdin(), 64, 200)"
    run_script(text, stdin=pickle.dumps(replay.handle()))
    assert_holds(replay, range(200, 264))


def test_a_forked_process_writes_through_what_it_inherits_and_through_the_handle():
    run_script("""
from children import *
tagged = TaggedRows()
replay = Replay(256, tagged.spec, shared=True)
handle = replay.handle()
for pid in (forked(write_rows, replay, 64), forked(attach_and_write, handle, 64, 64)):
    assert wait_for(pid) == 0
sample = replay.sample(128)
tagged.check(sample)
assert sorted(sample.data["tag"]) == list(range(128))
assert replay._table.is_consistent()
""")


FORKED_WHILE_LOCKED = """
import threading, warnings
from children import *
from drivetrain.replay import _native
warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads, which is what this is about
shared, num_rows, num_locked = sys.argv[1] == "True", 2**16, 0
replay = Replay(num_rows, {"x": ((), "u1")}, shared=shared)
no = np.zeros(num_rows, bool)
replay.writer(num_rows).add(x=np.zeros(num_rows, np.uint8), reward=np.zeros(num_rows), terminated=no, truncated=no)
keys, ending = replay.all_keys(), threading.Event()
priorities = np.random.default_rng(0).random(num_rows)  # made here, and many: the lock is held nearly all of the time
memory = replay._segment.payload if shared else replay._private
lock_word = np.frombuffer(memory, np.uint32, count=1, offset=_native.LOCK_OFFSET)

def update():
    while not ending.is_set():
        replay.update_priorities(keys, priorities)

def use(was_locked):
    signal.alarm(60)
    replay.update_priorities(replay.sample(64).keys, np.full(64, 2.0))
    replay.writer().add(x=np.ones(1, np.uint8), reward=np.zeros(1), terminated=no[:1], truncated=no[:1])
    assert replay.alpha == 0.6 and replay._table.is_consistent()
    os._exit(7 if was_locked else 0)

thread = threading.Thread(target=update)
thread.start()
for _ in range(400):
    pid = forked(lambda: use(not shared and lock_word[0] != 0))
    code = wait_for(pid)
    assert code in (0, 7), code
    num_locked += code == 7
    if num_locked == 3 or (shared and _ == 20):
        break
ending.set()
thread.join()
assert replay._table.is_consistent()
assert shared or num_locked > 0
"""


@pytest.mark.parametrize("shared", [True, False])
def test_a_process_forked_while_a_thread_holds_the_lock_goes_on(shared):
    run_script(FORKED_WHILE_LOCKED, shared)


def test_an_attached_replay_knows_all_of_the_first_ones_settings():
    spec = {"obs": {"a": ((2, 3), ">f4"), "b": ((), "S5")}, "action": ((), [("x", "f8"), ("y", "u1")])}
    first = Replay(77, spec, prioritized=False, alpha=0.3, num_step=4, gamma=0.9, seed=2**64 - 1, shared=True)
    second = Replay.attach(pickle.loads(pickle.dumps(first.handle())))
    assert second._settings == first._settings
    assert (second.capacity, second.nbytes, len(second)) == (77, first.nbytes, 0)


def test_what_one_does_the_other_sees(replay):
    other = Replay.attach(replay.handle())
    write_rows(other, 64)
    assert len(replay) == len(other) == 64
    sample = replay.sample(64)
    assert other.update_priorities(sample.keys, np.full(64, 7.0)) == 0
    assert replay._table.stats()["max_priority"] == 7.0
    other.close()
    assert_holds(replay, range(64))


def test_a_handle_of_an_attached_replay_is_as_good(replay):
    second = Replay.attach(replay.handle())
    write_rows(Replay.attach(second.handle()), 8)
    assert len(replay) == 8


def test_a_dead_owner_is_named():
    text = "from children import *; r = Replay(8, TaggedRows().spec, shared=True); "
    text += "sys.stdout.buffer.write(pickle.dumps(r.handle()))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, env=environment, check=True)
    handle = pickle.loads(done.stdout)
    with pytest.raises(OwnerDead, match=rf"process {handle.segment.pid}\) is gone; create a new one"):
        Replay.attach(handle)


def test_a_reused_process_number_is_not_the_owner(replay):
    segment = replay.handle().segment
    stale = dataclasses.replace(segment, start_time=segment.start_time - 1)
    with pytest.raises(OwnerDead):
        Replay.attach(ReplayHandle(segment=stale))


def test_a_zombie_owner_is_dead():
    text = """
from children import *
r, w = os.pipe()
def owner():
    replay = Replay(8, TaggedRows().spec, shared=True)
    os.write(w, pickle.dumps(replay.handle()))
pid = forked(owner)
handle = pickle.loads(os.read(r, 10_000))
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # ended and not yet reaped
try:
    Replay.attach(handle)
except Exception as error:
    print(type(error).__name__)
assert wait_for(pid) == 0
"""
    assert run_script(text) == "OwnerDead\n"


def test_a_closed_owner_is_told_from_a_later_one_with_the_same_descriptor():
    gc.collect()  # or what other tests have left may free a lower descriptor in between
    first = Replay(8, TAGGED.spec, shared=True)
    handle = first.handle()
    first.close()
    with pytest.raises(SegmentError, match="closed by its owner"):
        Replay.attach(handle)
    second = Replay(8, TAGGED.spec, shared=True)
    assert second.handle().segment.fd == handle.segment.fd  # or this test shows nothing
    with pytest.raises(SegmentError, match="closed by its owner"):
        Replay.attach(handle)


def foreign_handle(fd, template, kind="replay"):
    changes = {"fd": fd, "inode": os.fstat(fd).st_ino, "kind": kind}
    return ReplayHandle(segment=dataclasses.replace(template.handle().segment, **changes))


def test_descriptors_of_other_things_are_refused(replay, tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 10_000)
    (tmp_path / "empty").write_bytes(b"")
    pipe = os.pipe()
    folder = os.open(tmp_path, os.O_RDONLY)
    fds = [os.open(tmp_path / "file", os.O_RDWR), os.open(tmp_path / "empty", os.O_RDWR), *pipe]
    try:
        for fd in fds:
            with pytest.raises(ForeignSegment):
                Replay.attach(foreign_handle(fd, replay))
        with pytest.raises(SegmentError):
            Replay.attach(foreign_handle(folder, replay))
    finally:
        for fd in (*fds, folder):
            os.close(fd)


def test_segments_of_another_kind_are_refused(replay):
    with Segment.create("weights", 10_000) as other:
        with pytest.raises(ForeignSegment, match="kind 'weights'"):
            Replay.attach(ReplayHandle(segment=other.handle()))
        with pytest.raises(ForeignSegment, match="kind 'weights'"):  # whatever the handle says
            Replay.attach(ReplayHandle(segment=dataclasses.replace(other.handle(), kind="replay")))


def test_segments_of_another_version_are_refused(replay):
    handle = replay.handle()
    with open(f"/proc/self/fd/{handle.segment.fd}", "r+b") as memory:
        memory.seek(8)
        version = memory.read(4)
        memory.seek(8)
        memory.write(struct.pack("<I", 99))
        memory.flush()
        with pytest.raises(ForeignSegment, match="expected version 2, got 99; use one drivetrain version"):
            Replay.attach(handle)
        memory.seek(8)
        memory.write(version)
        memory.flush()
        offset = struct.unpack_from("<Q", os.pread(memory.fileno(), 8, 28))[0]
        os.pwrite(memory.fileno(), struct.pack("<I", 77), offset)  # of the table
    with pytest.raises(ForeignSegment, match="another version"):
        Replay.attach(handle)


def test_what_was_attached_outlives_its_owner():
    text = "from children import *; r = Replay(256, TaggedRows().spec, shared=True); write_rows(r, 64)\n"
    text += "sys.stdout.buffer.write(pickle.dumps(r.handle())); sys.stdout.buffer.flush(); sys.stdin.read()"
    with started_script(text) as owner:
        replay = Replay.attach(pickle.load(owner.stdout))
        owner.kill()
        owner.wait()
        write_rows(replay, 64, first_tag=64)
        assert_holds(replay, range(128))


def draw(handle, num_calls, results):
    with Replay.attach(handle) as replay:
        results.put([slots_of(replay.sample(8, mode="iid").keys) for _ in range(num_calls)])


@pytest.mark.whole
@pytest.mark.parametrize("prioritized", [True, False])
def test_two_samplers_in_two_processes_never_share_a_draw(prioritized):
    replay = filled_replay(2**20, prioritized=prioritized, shared=True, seed=3)
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    children = [context.Process(target=draw, args=(replay.handle(), 200, results)) for _ in range(2)]
    for child in children:
        child.start()
    drawn = [results.get() for _ in children]
    for child in children:
        child.join()
    batches = sorted(tuple(batch) for result in drawn for batch in result)
    stream = np.random.Philox(key=3)  # each block of the stream was used once, by one of them
    stream.random_raw(0)
    words = [int(word) for word in stream.random_raw(400 * 8)]
    total = replay._table.stats()["total_units"] if prioritized else 2**20
    expected = [word * total >> 64 for word in words]
    if prioritized:  # all leaves alike
        positions = [target // (total // 2**20) for target in expected]
        expected = [p // 16 * 16 + p % 4 * 4 + p % 16 // 4 for p in positions]  # the order of leaves in a node
    assert batches == sorted(tuple(expected[i : i + 8]) for i in range(0, len(expected), 8))


def test_the_oracle_agrees_with_draws_split_between_two_handles():
    first = filled_replay(100, shared=True, seed=8)
    second = Replay.attach(first.handle())
    oracle = ReferenceReplay(100, {"x": ((), "uint8")}, seed=8)
    for _ in range(100):
        oracle.insert([{"terminated": False, "truncated": True}])
    for native in (first, second, second, first):
        np.testing.assert_array_equal(native.sample(10).keys, oracle.sample(10).keys)


def test_every_user_of_a_process_that_closes_keeps_what_it_holds(replay):
    writer = replay.writer(8)
    other = Replay.attach(replay.handle())
    replay.close()
    assert len(other) == 0
    with pytest.raises(NotEnoughData):
        other.sample(1)
    del writer
    write_rows(other, 8)
    assert len(other) == 8


def held():
    """Descriptors and mappings of segments that this process has."""
    gc.collect()  # those of other tests
    links = [os.path.join("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")]
    mapped = Path("/proc/self/maps").read_bytes().count(b"memfd:drivetrain-")
    return sum("memfd:drivetrain-" in os.readlink(link) for link in links if os.path.islink(link)), mapped


def test_closing_gives_the_memory_back():
    before = held()
    replay = filled_replay(2**12, shared=True)
    other = Replay.attach(replay.handle())
    assert held() > before
    sample = other.sample(16)
    other.update_priorities(sample.keys, sample.weights)
    replay.close()
    other.close()
    assert held() == before


@pytest.mark.parametrize("kind", [{}, {"sequence": Sequences(length=3)}])
def test_closing_gives_the_memory_back_though_writers_are_left(kind):
    before = held()
    with Replay(256, TAGGED.spec, shared=True, **kind) as replay:
        writers = [replay.writer(3) for _ in range(2)]
        only_its_method = replay.writer(3).add
        assert held() > before
    assert held() == before
    for add in (*(writer.add for writer in writers), only_its_method):
        with pytest.raises(Closed):
            add(**TAGGED.step(np.arange(3)))
    with pytest.raises(Closed):
        writers[0].drop_windows()


def add_until_closed(writer, begun, ends):
    try:
        while True:
            writer.add(**TAGGED.step(np.arange(64)))
            begun.set()
    except Closed as error:
        ends.append(type(error))


def test_a_writer_that_adds_while_its_replay_is_closed_ends_whole():
    for seed in range(20):
        before, replay = held(), Replay(256, TAGGED.spec, shared=True)
        writer, begun, ends = replay.writer(64), threading.Event(), []
        thread = threading.Thread(target=add_until_closed, args=(writer, begun, ends))
        thread.start()
        begun.wait(60)
        time.sleep(seed * 1e-4)
        replay.close()
        thread.join(60)
        assert ends == [Closed]
        del replay  # the writer alone is left
        assert held() == before


def test_keys_of_another_replay_never_corrupt_this_one():
    big, small = filled_replay(100), filled_replay(10)
    keys = big.sample(100).keys
    with pytest.raises(ValueError, match="no key of this replay"):
        small.update_priorities(keys, np.ones(100))
    fitting = keys[slots_of(keys) < 10]
    small.update_priorities(fitting, np.full(len(fitting), 2.0))  # cannot be told apart, and does no harm
    check_consistent(small)
    assert small.update_priorities(first_keys(10) + np.uint64(2 << 32), np.ones(10)) == 10  # of a later row: stale
