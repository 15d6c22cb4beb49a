"""alpha changes while a replay is in use: for everybody at once, and without forgetting priorities."""

import multiprocessing
import threading

import numpy as np
import pytest
from filled import add_rows, filled_replay, first_keys, leaves_of

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Replay
from drivetrain.replay.files import part
from drivetrain.replay.testing import check_consistent


@pytest.mark.parametrize("capacity", [1, 700, 20_000])
@pytest.mark.parametrize("new", [0.1, 0.6, 1.0])
def test_rescaled_leaves_are_those_of_the_new_alpha(capacity, new):
    replay = filled_replay(capacity, alpha=0.6, weights_by="buffer")
    values = np.random.default_rng(1).exponential(2.0, capacity)
    replay.update_priorities(replay.all_keys(), values)
    replay.set_alpha(new)
    assert replay.alpha == new
    np.testing.assert_allclose(replay.priorities(replay.all_keys()), values, rtol=1e-4, atol=1e-7)
    stats = replay.priority_stats()
    expected = (values + 1e-6) ** new
    np.testing.assert_allclose(
        [stats.minimum, stats.maximum, stats.sum], [expected.min(), expected.max(), expected.sum()], rtol=1e-4
    )
    check_consistent(replay)


def test_beside_an_error_that_exploded_a_larger_alpha_keeps_the_others_as_small_as_if_it_had_always_been_so():
    replays = [filled_replay(4000, alpha=alpha) for alpha in (0.4, 1.0)]
    for replay in replays:
        replay.update_priorities(replay.all_keys(), np.linspace(1e-3, 50, 4000))
        replay.update_priorities(replay.all_keys()[:1], np.array([1e15]))
    replays[0].set_alpha(1.0)
    turned, expected = (replay.priorities(replay.all_keys()) for replay in replays)
    np.testing.assert_allclose(turned, expected, rtol=1e-3)  # of the smallest leaves there are, but for the first
    check_consistent(replays[0])


def test_without_rescaling_only_later_priorities_feel_it():
    replay = filled_replay(4, num_rows=3, alpha=0.5)
    replay.update_priorities(first_keys(3), np.array([4.0, 9.0, 16.0]))
    replay.set_alpha(1.0, rescale=False)
    np.testing.assert_allclose(leaves_of(replay)[:3], [2, 3, 4], rtol=1e-5)
    replay.update_priorities(first_keys(1), np.array([4.0]))
    add_rows(replay, 1)
    np.testing.assert_allclose(leaves_of(replay), [4, 3, 4, 16], rtol=1e-5)


@pytest.mark.filterwarnings("error")
def test_priorities_read_by_an_alpha_close_to_zero_are_such_as_can_be_given_again():
    largest = float(np.finfo(np.float32).max)
    replay = filled_replay(3, alpha=0.5)
    replay.update_priorities(first_keys(3), np.array([4.0, 0.25, 1.0]))
    replay.set_alpha(1e-4, rescale=False)
    found = replay.priorities(first_keys(3))
    np.testing.assert_allclose(found, [largest, 0, 1], atol=0.01)
    assert replay.priority_stats().maximum_priority == largest
    assert replay.update_priorities(first_keys(3), found) == 0
    tiny = filled_replay(3, alpha=1e-9)  # rounding of leaves alone
    tiny.update_priorities(first_keys(1), np.array([3e38]))
    assert tiny.priorities(first_keys(1)).tolist() == [largest]


def test_every_process_attached_sees_it_at_once():
    replay = filled_replay(4, alpha=0.5, shared=True)
    other = Replay.attach(replay.handle())
    replay.set_alpha(1.0)
    assert other.alpha == 1.0
    other.update_priorities(first_keys(4)[:1], np.array([7.0]))
    np.testing.assert_allclose(leaves_of(replay), [7, 1, 1, 1], rtol=1e-5)


def test_a_file_keeps_the_alpha_of_its_leaves(tmp_path):
    replay = filled_replay(4, alpha=0.5)
    replay.update_priorities(first_keys(4), np.array([1.0, 2, 3, 4]))
    replay.set_alpha(0.9)
    replay.save(tmp_path / "file")
    loaded = Replay.load(tmp_path / "file")
    assert loaded.alpha == 0.9
    np.testing.assert_allclose(loaded.priorities(loaded.all_keys()), [1, 2, 3, 4], rtol=1e-5)


@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("saves_before", [0, 1])
def test_a_change_of_alpha_while_a_file_is_written_leaves_each_priority_what_it_was(
    tmp_path, monkeypatch, saves_before, rescale
):
    """Some leaves are read before the change, some after it, and a file has one alpha for all of them."""
    capacity = 100_000
    replay = filled_replay(capacity, alpha=1.0)
    values = np.random.default_rng(1).exponential(2.0, capacity)
    for _ in range(saves_before):
        replay.save(tmp_path / "file", incremental=True)
    replay.update_priorities(replay.all_keys(), values)
    changes, read = [], part._changes

    def changed_after_the_first_piece(*arguments):
        if len(changes) == 1:
            replay.set_alpha(0.5, rescale=rescale)
        changes.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(part, "_changes", changed_after_the_first_piece)
    replay.save(tmp_path / "file", incremental=True)
    assert len(changes) > 1
    num_first = changes[0][-1].stop  # rows that were read before it
    loaded = Replay.load(tmp_path / "file")
    assert loaded.alpha == 1.0
    found, now = loaded.priorities(loaded.all_keys()), replay.priorities(replay.all_keys())
    np.testing.assert_allclose(found[:num_first], values[:num_first], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found[num_first:], now[num_first:], rtol=1e-3, atol=1e-6)
    if rescale:
        np.testing.assert_allclose(now, values, rtol=1e-3, atol=1e-6)


def test_a_change_of_alpha_beside_an_error_that_exploded_while_rows_come_to_a_file_leaves_priorities_there(
    tmp_path, monkeypatch
):
    """By the new alpha the unit of leaves is coarser, and a file whose leaves are by the one before is not of that."""
    replay, values = filled_replay(4000, alpha=0.4), np.linspace(1e-3, 50, 4000)
    replay.update_priorities(replay.all_keys(), np.where(np.arange(4000) == 20, 1e15, values))
    pieces, read = [], part._changes

    def changed_after_the_first_piece(*arguments):
        if len(pieces) == 1:
            replay.set_alpha(1.0)
            add_rows(replay, 10)
        pieces.append(arguments[-1])
        return read(*arguments)

    monkeypatch.setattr(part, "_changes", changed_after_the_first_piece)
    replay.save(tmp_path / "file")
    loaded = Replay.load(tmp_path / "file")
    assert loaded.alpha == 0.4
    found = loaded.priorities(loaded.all_keys())
    num_before = pieces[0].stop - 21  # of those that were read before it and are still there, behind the exploded one
    np.testing.assert_allclose(found[11 : 11 + num_before], values[21:][:num_before], rtol=1e-3, atol=1e-6)


def test_from_alpha_zero_nothing_can_be_rescaled():
    replay = filled_replay(4, alpha=0.5)
    replay.set_alpha(0)
    assert (leaves_of(replay) == 1).all()
    with pytest.raises(InvalidInput, match=r"with alpha 0 every leaf is 1 .* use rescale=False"):
        replay.set_alpha(0.5)
    assert replay.alpha == 0
    replay.set_alpha(0.0)
    replay.set_alpha(0.5, rescale=False)
    replay.update_priorities(replay.all_keys(), np.full(4, 4.0))
    np.testing.assert_allclose(leaves_of(replay), 2, rtol=1e-5)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, np.nan, "1", None])
def test_an_alpha_out_of_range_is_refused(alpha):
    replay = filled_replay(4)
    with pytest.raises(InvalidInput, match=r"alpha: expected a number in \[0, 1\]"):
        replay.set_alpha(alpha)
    assert replay.alpha == 0.6


def priority_of(keys):
    return 0.5 + (keys & np.uint64(2**32 - 1)) % np.uint64(97)


def update_for_a_while(handle, seed, num_rounds):
    rng = np.random.default_rng(seed)
    with Replay.attach(handle) as replay:
        keys = replay.all_keys()
        for _ in range(num_rounds):
            some = rng.choice(keys, 300)
            replay.update_priorities(some, priority_of(some))


@pytest.mark.whole
def test_priorities_survive_changes_of_alpha_while_threads_and_processes_update():
    replay = filled_replay(20_000, alpha=0.5, shared=True)
    replay.update_priorities(replay.all_keys(), priority_of(replay.all_keys()))
    workers = [threading.Thread(target=update_for_a_while, args=(replay.handle(), seed, 300)) for seed in (1, 2)]
    spawn = multiprocessing.get_context("spawn")
    workers.append(spawn.Process(target=update_for_a_while, args=(replay.handle(), 3, 300)))
    for worker in workers:
        worker.start()
    num_changes = 0
    while any(worker.is_alive() for worker in workers) or num_changes < 6:
        replay.set_alpha([0.9, 0.3, 0.7][num_changes % 3])
        num_changes += 1
        assert replay.sample(64).weights.max() == 1.0
    for worker in workers:
        worker.join()
    assert workers[-1].exitcode == 0
    keys = replay.all_keys()
    # Each change rounds leaves of float32 once more.
    np.testing.assert_allclose(replay.priorities(keys), priority_of(keys), rtol=num_changes * 1e-6 + 1e-5)
    check_consistent(replay)


def change_and_die(handle):
    import os
    import signal

    replay = Replay.attach(handle)
    threading.Timer(0.002, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    while True:
        replay.set_alpha(0.3)
        replay.set_alpha(0.8)


@pytest.mark.parametrize("settings", [{}, {"weights_by": "buffer"}])  # the ends by a walk, or kept
def test_statistics_are_of_one_alpha_while_a_thread_changes_it(settings):
    replay = filled_replay(3000, initial_priority=3.0, **settings)
    stop = threading.Event()

    def anneal():
        while not stop.is_set():
            for alpha in (0.3, 0.9, 0.6):
                replay.set_alpha(alpha)

    thread = threading.Thread(target=anneal)
    thread.start()
    try:
        for _ in range(3000):
            stats = replay.priority_stats()
            found = [stats.minimum_priority, stats.maximum_priority, stats.mean]
            np.testing.assert_allclose(found, [3, 3, (3 + 1e-6) ** stats.alpha], rtol=1e-4)
    finally:
        stop.set()
        thread.join()


def test_a_process_killed_while_it_rescales_leaves_leaves_that_others_complete(tmp_path):
    replay = filled_replay(50_000, alpha=0.5, shared=True)
    keys = replay.all_keys()
    replay.update_priorities(keys, priority_of(keys))
    child = multiprocessing.get_context("spawn").Process(target=change_and_die, args=(replay.handle(),))
    child.start()
    child.join()
    np.testing.assert_allclose(replay.priorities(keys), priority_of(keys), rtol=1e-3)  # by the alpha of each
    replay.save(tmp_path / "file")
    with Replay.load(tmp_path / "file") as loaded:
        np.testing.assert_allclose(loaded.priorities(loaded.all_keys()), priority_of(keys), rtol=1e-3)
    for _ in range(50_000 // 512 + 1):
        replay.update_priorities(keys[:1], priority_of(keys[:1]))  # each completes a little
    stats = replay.priority_stats()
    np.testing.assert_allclose(stats.sum, ((priority_of(keys) + 1e-6) ** replay.alpha).sum(), rtol=1e-3)
    check_consistent(replay)


def test_leaves_are_rescaled_or_not():
    with pytest.raises(InvalidInput, match="rescale: expected True or False, got 'no'"):
        filled_replay(8).set_alpha(0.5, rescale="no")


def test_from_next_to_nothing_nothing_can_be_rescaled_but_further_down():
    replay = filled_replay(4, alpha=0.5)
    replay.set_alpha(1e-5)
    replay.set_alpha(1e-6)
    with pytest.raises(InvalidInput, match=r"one below 1e-4 .* from alpha 1e-06 to 0.5; use rescale=False"):
        replay.set_alpha(0.5)
    assert replay.alpha == 1e-6
    replay.set_alpha(0.5, rescale=False)


@pytest.mark.parametrize("low", [1e-4, 1e-3, 0.1])
def test_priorities_come_back_from_a_small_alpha_up_to_the_rounding_of_leaves(low):
    replay = filled_replay(16, alpha=0.6)
    given = np.geomspace(1e-3, 1e3, 16)
    replay.update_priorities(replay.all_keys(), given)
    replay.set_alpha(low)
    replay.set_alpha(0.6)
    np.testing.assert_allclose(replay.priorities(replay.all_keys()), given, rtol=2 * 6e-8 / low + 1e-4)
