"""Threads and processes insert, sample and update at once, and are killed or stopped anywhere meanwhile."""

import multiprocessing
import threading

import numpy as np
import pytest
from children import run_script, tagged_for, write_rows

from drivetrain.core.errors import Closed, NotEnoughData
from drivetrain.replay import Replay
from drivetrain.replay.testing import TaggedRows, TaggedStacks, check_consistent

NUM_BYTES = 500


def insert(replay, seed, num_rows):
    first_tag = seed << (8 if replay._schema.frame_stack else 40)
    write_rows(replay, num_rows, first_tag=first_tag, num_envs=32, num_bytes=NUM_BYTES)


def learn(replay, seed, num_samples):
    tagged, rng, out, num_stale = tagged_for(replay, NUM_BYTES), np.random.default_rng(seed), None, 0
    while num_samples:
        try:
            out = replay.sample(32, num_batches=2, out=out, mode="iid" if seed % 2 else "stratified")
        except NotEnoughData:  # most of a small replay is being overwritten
            continue
        num_samples -= 1
        tagged.check(out)
        assert np.isfinite(out.weights).all()
        if replay._settings.prioritized:
            num_stale += replay.update_priorities(out.keys, rng.pareto(1.0, (2, 32)))
    return num_stale


def insert_elsewhere(handle, seed, num_rows):
    with Replay.attach(handle) as replay:
        insert(replay, seed, num_rows)


def learn_elsewhere(handle, seed, num_samples):
    with Replay.attach(handle) as replay:
        learn(replay, seed, num_samples)


def run_all(workers):
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


class Caught(threading.Thread):
    """A thread whose exception is kept."""

    error = None

    def run(self):
        try:
            super().run()
        except BaseException as error:
            self.error = error


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("capacity", [130, 5000])
def test_threads_never_see_a_torn_row(prioritized, capacity):
    replay = Replay(capacity, TaggedRows(NUM_BYTES).spec, prioritized=prioritized)
    threads = [Caught(target=insert, args=(replay, seed, 20_000)) for seed in (1, 2)]
    threads += [Caught(target=learn, args=(replay, seed, 400)) for seed in (3, 4)]
    run_all(threads)
    assert [thread.error for thread in threads] == [None] * 4
    assert (len(replay), replay.num_inserted) == (capacity, 40_000)
    check_consistent(replay)


@pytest.mark.whole
@pytest.mark.parametrize("prioritized", [True, False])
def test_processes_never_see_a_torn_row(prioritized):
    replay = Replay(1000, TaggedRows(NUM_BYTES).spec, prioritized=prioritized, shared=True)
    context, handle = multiprocessing.get_context("spawn"), replay.handle()
    processes = [context.Process(target=insert_elsewhere, args=(handle, seed, 40_000)) for seed in (1, 2)]
    processes.append(context.Process(target=learn_elsewhere, args=(handle, 3, 500)))
    learner = Caught(target=learn, args=(replay, 4, 500))
    run_all([*processes, learner])
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert learner.error is None
    assert (len(replay), replay.num_inserted) == (1000, 80_000)
    check_consistent(replay)


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("capacity", [130, 5000])
@pytest.mark.parametrize("stack", [1, 4])
def test_threads_never_see_a_torn_stack(prioritized, capacity, stack):
    spec = TaggedStacks(NUM_BYTES, stack=stack).spec
    replay = Replay(capacity, spec, prioritized=prioritized, share_next_obs=True, frame_stack=stack)
    threads = [Caught(target=insert, args=(replay, seed, 10_000)) for seed in (1, 2)]
    threads += [Caught(target=learn, args=(replay, seed, 200)) for seed in (3, 4)]
    run_all(threads)
    assert [thread.error for thread in threads] == [None] * 4
    assert replay.num_inserted + replay.num_dropped == 2 * 313 * 32
    check_consistent(replay)


@pytest.mark.whole
@pytest.mark.parametrize("prioritized", [True, False])
def test_processes_never_see_a_torn_stack(prioritized):
    replay = Replay(1000, TaggedStacks(NUM_BYTES, stack=3).spec, prioritized=prioritized, shared=True, frame_stack=3)
    context, handle = multiprocessing.get_context("spawn"), replay.handle()
    processes = [context.Process(target=insert_elsewhere, args=(handle, seed, 20_000)) for seed in (1, 2)]
    learner = Caught(target=learn, args=(replay, 4, 300))
    run_all([*processes, learner])
    assert [process.exitcode for process in processes] == [0, 0]
    assert learner.error is None
    assert replay.num_inserted + replay.num_dropped == 40_000
    check_consistent(replay)


def test_closing_while_others_are_in_calls_ends_them_with_closed():
    replay = Replay(1000, TaggedRows(NUM_BYTES).spec, shared=True)
    insert(replay, 1, 1000)
    started = threading.Barrier(3)

    def work(function):
        function()
        started.wait()
        while True:
            function()

    threads = [Caught(target=work, args=(lambda: learn(replay, 1, 1),))]
    threads += [Caught(target=work, args=(lambda: insert(replay, 2, 320),))]
    for thread in threads:
        thread.start()
    started.wait()
    replay.close()
    for thread in threads:
        thread.join()
    assert [type(thread.error) for thread in threads] == [Closed, Closed]


def random_kills(num_kills, seconds, prioritized, stack):
    text = "import sys; from children import report_kills; "
    text += "report_kills(7, int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == 'True', int(sys.argv[4]))"
    report = run_script(text, num_kills, seconds, prioritized, stack)
    print(report)  # noqa: T201
    assert int(report.split()[0]) >= num_kills


@pytest.mark.whole
@pytest.mark.parametrize("stack", [0, 1, 4])
@pytest.mark.parametrize("prioritized", [True, False])
def test_random_kills_of_actors_and_learners_stall_nobody_and_tear_nothing(prioritized, stack):
    random_kills(100 if stack == 0 else 60, 0.0, prioritized, stack)


@pytest.mark.stress
@pytest.mark.parametrize("stack", [0, 4])
@pytest.mark.parametrize("prioritized", [True, False])
def test_a_minute_of_random_kills_stalls_nobody_and_tears_nothing(prioritized, stack):
    random_kills(1000, 60.0, prioritized, stack)


OUTLIVED = """
from children import *
forked(lambda: time.sleep(5) or os.write(1, b"still here"))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_children_of_a_test_that_is_killed_end_with_it():
    assert run_script(OUTLIVED, check=False) == ""


STOPPED_WRITER = """
from children import *
num_bytes, tagged = 500_000, TaggedRows(500_000)
replay = Replay(40, tagged.spec, shared=True, prioritized=sys.argv[1] == "True")
for _ in range(5):
    pid = forked(write_for_ever, replay, 8, num_bytes, 1)
    stop_while_it_writes(replay, pid)
    num_stopped = in_flight(replay)
    assert 0 < num_stopped <= 8
    write_rows(replay, 160, num_bytes=num_bytes)  # four times round the ring
    assert in_flight(replay) == num_stopped and len(replay) == 40 - num_stopped  # passed over
    tagged.check(replay.sample(16))
    inserted = replay.num_inserted
    os.kill(pid, signal.SIGCONT)
    while replay.num_inserted == inserted:
        pass
    for _ in range(5):
        tagged.check(replay.sample(16, mode="iid"))
    stop_while_it_writes(replay, pid)
    assert kill(pid) == -signal.SIGKILL
    assert in_flight(replay) > 0  # orphaned
    check_consistent(replay)
    write_rows(replay, 40, num_bytes=num_bytes)
    assert in_flight(replay) == 0 and len(replay) == 40
    tagged.check(replay.sample(40))
    check_consistent(replay)
"""


@pytest.mark.whole
@pytest.mark.parametrize("prioritized", [True, False])
def test_a_stopped_writer_keeps_its_rows_until_it_goes_on_or_dies(prioritized):
    run_script(STOPPED_WRITER, prioritized)


ORPHANS = """
from children import *
tagged = TaggedRows(100_000)
replay = Replay(40, tagged.spec, shared=True, prioritized=sys.argv[1] == "True", seed=1)
pid = forked(write_for_ever, replay, 8, 100_000, 1)
while replay.num_inserted < 40:
    pass
stop_while_it_writes(replay, pid)
kill(pid)
whole = generations(replay) % 2 == 0
counts, draws = np.zeros(40), 10_000
small = min(len(replay), 20)
for mode in ("iid", "stratified"):
    for _ in range(draws // small // 2):
        sample = replay.sample(small, mode=mode)
        counts += np.bincount((sample.keys & np.uint64(2**32 - 1)).astype(int), minlength=40)
        assert (sample.weights == 1).all()
assert (counts[~whole] == 0).all() and whole.sum() < 40
expected = counts.sum() / whole.sum()
ratio = ((counts[whole] - expected) ** 2 / expected).sum() / (whole.sum() - 1)
assert ratio < 2.5, ratio  # chi-square with at least 31 degrees of freedom: p < 1e-5
"""


@pytest.mark.parametrize("prioritized", [True, False])
def test_draws_are_uniform_among_whole_rows_when_some_are_orphaned(prioritized):
    run_script(ORPHANS, prioritized)
