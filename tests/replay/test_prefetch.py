"""Prefetching: the same samples, drawn ahead and no further; errors arrive; the thread always ends."""

import gc
import itertools
import sys
import threading
import time
from queue import SimpleQueue

import numpy as np
import pytest
from children import run_script
from filled import add_rows, filled_replay, first_keys

from drivetrain.core.errors import Closed, InvalidInput, NotEnoughData, TimedOut
from drivetrain.replay.schedules import Linear


def prefetch_threads():
    """Those that run; Python lists one that has ended, too, where Ctrl-C came in the midst of its join()."""
    return [thread for thread in threading.enumerate() if thread.name == "drivetrain-prefetch" and thread.is_alive()]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert prefetch_threads() == []


def wait_until(condition):
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < 30
        time.sleep(0.002)


@pytest.mark.parametrize("options", [{}, {"num_batches": 3, "mode": "iid"}])
def test_prefetched_samples_are_those_that_sample_would_have_drawn(options):
    replay, twin = filled_replay(1000, seed=3), filled_replay(1000, seed=3)
    beta = Linear(0.1, 1.0, 10)
    for one in (replay, twin):
        one.update_priorities(first_keys(1000), np.arange(1000.0))
    with replay.prefetch(32, beta=beta, **options) as samples:
        assert iter(samples) is samples
        for step, sample in zip(range(20), samples, strict=False):
            expected = twin.sample(32, beta=beta(step), **options)
            np.testing.assert_array_equal(sample.keys, expected.keys)
            np.testing.assert_array_equal(sample.weights, expected.weights)
            np.testing.assert_array_equal(sample.data["x"], expected.data["x"])


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_never_more_than_depth_samples_are_ahead(depth):
    replay = filled_replay(100)

    def num_drawn():
        return (replay._table.stats()["random_block"] - 1) // 3  # blocks of words: 2 of draws, 1 of their order

    with replay.prefetch(8, depth=depth) as samples:
        for taken in range(4):
            wait_until(lambda taken=taken: num_drawn() == taken + depth)
            time.sleep(0.02)
            assert num_drawn() == taken + depth
            next(samples)


def interrupt_what_was_taken(_, event, function):
    if event == "c_return" and isinstance(function.__self__, SimpleQueue) and function.__name__ == "get":
        sys.setprofile(None)
        raise KeyboardInterrupt


@pytest.mark.timeout(60)
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_samples_that_are_lost_to_ctrl_c_are_followed_by_others(depth):
    with filled_replay(100).prefetch(8, depth=depth) as samples:
        for _ in range(2 * depth + 1):
            sys.setprofile(interrupt_what_was_taken)
            with pytest.raises(KeyboardInterrupt):
                next(samples)
        assert next(samples).keys.shape == (8,)


def test_too_few_rows_are_waited_for():
    replay = filled_replay(100, num_rows=5)
    with replay.prefetch(8) as samples:
        threading.Timer(0.05, add_rows, (replay, 10)).start()
        assert next(samples).keys.shape == (8,)


def test_a_wait_for_rows_that_takes_too_long_says_so():
    replay = filled_replay(100, num_rows=5, num_step=1)
    with replay.prefetch(8, timeout_s=0.05) as samples:
        with pytest.raises(
            TimedOut, match=r"waited 0.05 s for enough rows; .* at least 8 committed transitions, got 5"
        ):
            next(samples)
        with pytest.raises(StopIteration):
            next(samples)


def test_what_goes_wrong_in_the_thread_arrives_after_what_went_well():
    def beta(step):
        if step == 2:
            raise KeyError("of the caller")
        return 0.5

    with filled_replay(100).prefetch(8, beta=beta, depth=5) as samples:
        assert [next(samples).keys.size for _ in range(2)] == [8, 8]
        with pytest.raises(KeyError, match="of the caller"):
            next(samples)
        assert list(samples) == []
    with filled_replay(100).prefetch(8, beta=lambda step: 7.0) as samples, pytest.raises(InvalidInput, match="beta"):
        next(samples)


def test_a_schedule_that_comes_to_an_end_does_not_look_like_the_end_of_iteration():
    betas = iter([0.4, 0.5])
    with filled_replay(8).prefetch(4, beta=lambda step: next(betas)) as samples:
        with pytest.raises(RuntimeError, match="the schedule of beta raised StopIteration"):
            list(samples)
        assert list(samples) == []


def test_closing_the_replay_ends_the_iteration_with_closed():
    replay = filled_replay(100)
    samples = replay.prefetch(8)
    next(samples)
    replay.close()
    with pytest.raises(Closed):
        [None for _ in samples]
    wait_until(lambda: prefetch_threads() == [])
    samples.close()


def test_closing_ends_the_thread_and_a_consumer_that_waits():
    replay = filled_replay(100, num_rows=3)
    samples = replay.prefetch(8)
    taken = []
    consumer = threading.Thread(target=lambda: taken.append(list(samples)))
    consumer.start()
    samples.close()
    consumer.join(30)
    assert taken == [[]]
    assert prefetch_threads() == []
    samples.close()
    with replay.prefetch(2) as ahead:
        next(ahead)
    assert list(ahead) == []  # also what had been drawn


def is_interrupted(call, number):
    """Call it with Ctrl-C at its event of this number; whether it had so many."""
    events = itertools.count()

    def interrupt(frame, *_):
        if frame.f_code is not is_interrupted.__code__ and next(events) == number:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


@pytest.mark.timeout(60)
def test_what_a_close_has_not_done_that_ctrl_c_has_ended_is_done_by_the_next():
    for number in itertools.count():
        samples = filled_replay(100).prefetch(8)
        next(samples)
        if not is_interrupted(samples.close, number):
            break
        samples.close()
        assert prefetch_threads() == []
        assert list(samples) == []
    assert number > 10


@pytest.mark.parametrize("num_rows", [3, 100])
def test_a_forgotten_prefetcher_takes_its_thread_along(num_rows):
    samples = filled_replay(100, num_rows=num_rows).prefetch(8)
    assert len(prefetch_threads()) == 1
    del samples
    gc.collect()
    wait_until(lambda: prefetch_threads() == [])


def test_a_prefetcher_that_its_own_thread_collects_takes_the_thread_along(monkeypatch):
    """Garbage is collected in the midst of any call, as of one by which it waits, with the lock of that."""
    release = threading.Condition.__exit__

    def collecting(condition, *exc_info):
        if threading.current_thread().name == "drivetrain-prefetch":
            gc.collect()
        return release(condition, *exc_info)

    samples = filled_replay(100, num_rows=3).prefetch(8)
    monkeypatch.setattr(threading.Condition, "__exit__", collecting)
    samples.itself = samples
    del samples
    time.sleep(0.05)  # some looks for rows
    gc.collect()
    wait_until(lambda: prefetch_threads() == [])


EXIT = """
import sys, time
from filled import filled_replay
replay = filled_replay(2**12, num_rows=int(sys.argv[1]))
samples = replay.prefetch(64, num_batches=16, timeout_s=1e6)
if sys.argv[2] == "busy":
    for _ in range(20):
        next(samples)
if sys.argv[2] == "closed":
    replay.close()
if sys.argv[2] == "fails":
    raise SystemExit(0)
print("end")
"""


@pytest.mark.whole
@pytest.mark.parametrize(
    ("num_rows", "how"), [(3, "waits"), (4096, "waits"), (4096, "busy"), (4096, "closed"), (9, "fails")]
)
def test_the_interpreter_ends_whatever_the_thread_is_doing(num_rows, how):
    for _ in range(3):
        assert run_script(EXIT, num_rows, how) == ("" if how == "fails" else "end\n")


FORKED = """
from children import *
from filled import filled_replay
from drivetrain.core.errors import InvalidInput
samples = filled_replay(100, shared=True).prefetch(8)
next(samples)
def use_it():
    try:
        next(samples)
    except InvalidInput as error:
        assert "did not follow into this forked process" in str(error)
        samples.close()
        os._exit(7)
assert wait_for(forked(use_it)) == 7
next(samples)
"""


def test_a_forked_process_is_told_that_the_thread_stayed_behind():
    run_script(FORKED)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size: expected an integer >= 1"),
        ({"depth": 0}, "depth: expected an integer in 1..1024, got 0"),
        ({"timeout_s": -1}, "timeout_s: expected a number of seconds >= 0, got -1"),
        ({"timeout_s": None}, "timeout_s"),
        ({"beta": 3.0}, r"beta: expected a number in \[0, 1\]"),
        ({"mode": "x"}, 'mode: expected "stratified" or "iid"'),
        ({"num_batches": 0}, "num_batches"),
        ({"timeout_s": float("inf")}, "timeout_s"),
        ({"timeout_s": 10**400}, "timeout_s"),
        ({"timeout_s": [1]}, "timeout_s"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_once(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        filled_replay(10).prefetch(**{"batch_size": 4, **arguments})


def test_a_batch_that_never_fits_is_refused_at_once():
    with pytest.raises(NotEnoughData, match="holds at most 10"):
        filled_replay(10).prefetch(11)


def test_a_schedule_is_asked_once_for_each_sample_however_long_it_takes():
    asked = []

    def beta(step):
        asked.append(step)
        return 0.5

    with filled_replay(64, num_rows=3) as replay, replay.prefetch(32, beta=beta, depth=1, timeout_s=60) as batches:
        time.sleep(0.1)  # many looks
        add_rows(replay, 61)
        next(batches)
        next(batches)
    assert asked == list(range(len(asked)))
    assert 2 <= len(asked) <= 4


def test_what_prefetch_would_hand_on_is_looked_at_before():
    with filled_replay(64) as replay, pytest.raises(InvalidInput, match="join_stacks: expected True or False, got 'z'"):
        replay.prefetch(8, join_stacks="z")


def test_pinned_samples_come_by_turns_and_stay_until_the_second_after_them_is_asked_for(monkeypatch):
    monkeypatch.setattr("drivetrain.replay.slab._pinned", lambda nbytes: np.empty(nbytes, np.uint8))
    with filled_replay(512, seed=3) as replay, filled_replay(512, seed=3) as twin:
        with replay.prefetch(64, depth=3, pinned=True) as batches:
            places, held = [], []
            for number in range(40):
                batch = next(batches)
                time.sleep(0.002)  # as many are drawn ahead as may be
                expected = twin.sample(64)
                np.testing.assert_array_equal(batch.keys, expected.keys)
                held.append((batch, expected))
                for kept, as_drawn in held[-2:]:
                    np.testing.assert_array_equal(kept.keys, as_drawn.keys, err_msg=str(number))
                places.append(batch.keys.ctypes.data)
        assert len(set(places)) == 3 + 2
        assert places[5:] == places[:-5]


def test_pinned_samples_are_not_joined():
    with filled_replay(64) as replay, pytest.raises(InvalidInput, match="pinned: joined stacks come in memory of"):
        replay.prefetch(8, pinned=True, join_stacks=True)
