"""Clearing: all rows are gone at once, for everybody, and what comes next is drawn as from a new replay."""

import numpy as np
import pytest
from filled import add_rows, count_draws, filled_replay, slots_of

from drivetrain.core.errors import Closed, NotEnoughData
from drivetrain.replay import Replay
from drivetrain.replay.testing import TaggedRows, TaggedStacks, check_consistent

TAGGED = TaggedRows()


@pytest.mark.parametrize("prioritized", [True, False])
def test_all_rows_are_gone_and_their_keys_are_stale(prioritized):
    replay = filled_replay(3000, prioritized=prioritized, num_rows=2500)
    keys = replay.sample(64).keys.copy()
    assert replay.clear() is None
    assert len(replay) == 0
    assert replay.all_keys().size == 0
    assert replay.num_inserted == 2500
    with pytest.raises(NotEnoughData):
        replay.sample(1)
    assert not replay.read(keys).weights.any()
    if prioritized:
        assert replay.update_priorities(keys, np.ones(64)) == 64
        assert np.isnan(replay.priorities(keys)).all()
        assert replay.priority_stats().count == 0
    check_consistent(replay)
    replay.clear()  # of nothing, nothing
    assert len(replay) == 0


def test_the_running_maximum_begins_again():
    replay = filled_replay(64)
    replay.update_priorities(replay.all_keys(), np.full(64, 50.0))
    replay.clear()
    add_rows(replay, 3)
    np.testing.assert_allclose(replay.priorities(replay.all_keys()), 1.0, rtol=1e-5)


def test_priorities_are_as_fine_again_as_before_an_error_exploded():
    replay = filled_replay(1000, alpha=1.0)
    replay.update_priorities(replay.all_keys()[:1], np.array([1e12]))
    replay.clear()
    add_rows(replay, 1000)
    values = np.linspace(0.0, 1.0, 1000)
    replay.update_priorities(replay.all_keys(), values)
    np.testing.assert_allclose(replay.priorities(replay.all_keys()), values, atol=1e-6)
    check_consistent(replay)


@pytest.mark.parametrize("prioritized", [True, False])
def test_few_rows_after_many_are_drawn_alike(prioritized):
    replay = filled_replay(2**14, prioritized=prioritized)
    replay.clear()
    add_rows(replay, 5)
    counts = count_draws(replay, 10_000)
    assert set(np.flatnonzero(counts)) == {0, 1, 2, 3, 4}, "the ring begins anew"
    np.testing.assert_allclose(counts[:5] / counts.sum(), 0.2, rtol=0.02)


def test_open_windows_stay_with_their_writer_unless_they_are_dropped():
    for drops in (False, True):
        replay = Replay(100, {"x": ((), "int64")}, num_step=3)
        writer, no = replay.writer(1), np.zeros(1, bool)
        for x in range(50):
            writer.add(x=np.array([x]), reward=np.ones(1), terminated=no, truncated=no)
        replay.clear()
        if drops:
            writer.drop_windows()
        for x in range(50, 54):
            writer.add(x=np.array([x]), reward=np.ones(1), terminated=no, truncated=no)
        assert sorted(replay.read(replay.all_keys()).data["x"]) == ([50, 51] if drops else [48, 49, 50, 51])


def test_chains_of_frames_go_on():
    tagged = TaggedStacks(stack=3)
    replay = Replay(60, tagged.spec, frame_stack=3)
    writer, streams = replay.writer(2), np.arange(2, dtype=np.uint64) << np.uint64(32)
    for step in range(200):
        writer.add(**tagged.step(streams + np.uint64(step)))
        if step % 17 == 0:
            replay.clear()
        else:
            tagged.check(replay.sample(1))
        check_consistent(replay)


def test_a_cleared_replay_is_saved_incrementally_and_loads_as_it_is(tmp_path):
    path = tmp_path / "file"
    with Replay(64, TAGGED.spec) as replay:
        writer = replay.writer(5)
        for first in range(0, 100, 5):
            writer.add(**TAGGED.step(np.arange(first, first + 5)))
        replay.save(path)
        replay.clear()
        replay.save(path, incremental=True)
        assert len(Replay.load(path)) == 0
        writer.add(**TAGGED.step(np.arange(100, 105)))
        replay.save(path, incremental=True)
        with Replay.load(path) as loaded:
            np.testing.assert_array_equal(
                loaded.read(loaded.all_keys()).data["tag"], replay.read(replay.all_keys()).data["tag"]
            )
            assert len(loaded) == 5


def test_it_is_cleared_for_everybody_who_shares_it():
    with Replay(64, TAGGED.spec, shared=True) as replay, Replay.attach(replay.handle()) as other:
        replay.writer(40).add(**TAGGED.step(np.arange(40)))
        keys = replay.sample(8).keys.copy()
        other.clear()
        assert len(replay) == 0
        assert replay.update_priorities(keys, np.ones(8)) == 8
        other.writer(4).add(**TAGGED.step(np.arange(40, 44)))
        np.testing.assert_array_equal(slots_of(replay.all_keys()), [0, 1, 2, 3])
        TAGGED.check(replay.sample(4))
    with pytest.raises(Closed):
        replay.clear()


def test_a_cleared_replay_that_shares_observations_asks_for_rows_and_not_for_capacity():
    tagged = TaggedStacks(stack=1)
    with Replay(100, tagged.spec, share_next_obs=True) as replay:
        writer = replay.writer(1)
        for step in range(50):
            writer.add(**tagged.step([step]))
        replay.clear()
        with pytest.raises(NotEnoughData, match=r"got 0; add more before sampling$"):
            replay.sample(10)


def test_files_have_no_frames_of_rows_that_are_gone(tmp_path):
    tagged = TaggedStacks(1000, stack=3)
    replay, path = Replay(60, tagged.spec, frame_stack=3), tmp_path / "replay.bin"
    writer, tags = replay.writer(2), np.arange(2, dtype=np.uint64) << np.uint64(32)
    for step in range(50):
        writer.add(**tagged.step(tags + np.uint64(step)))
    assert replay.save(path) > 60 * 1000
    replay.clear()
    assert replay.save(path, incremental=True) < 2000  # written anew
    writer.add(**tagged.step(tags + np.uint64(50)))
    assert replay.save(tmp_path / "whole.bin") < 2000 + 2 * 2 * 3 * 1000
    assert len(Replay.load(tmp_path / "whole.bin")) == 2


def test_a_row_whose_window_was_open_has_its_frames_in_the_file(tmp_path):
    tagged = TaggedStacks(100, stack=3)
    replay, path = Replay(60, tagged.spec, frame_stack=3, num_step=4), tmp_path / "replay.bin"
    slow, fast = replay.writer(), replay.writer()
    for step in range(5, 8):  # its window is one step short
        slow.add(**tagged.step(np.uint64([step])))
    for step in range(25, 35):
        fast.add(**tagged.step(np.uint64([step])))
    replay.clear()
    replay.save(path)
    for step in range(35, 38):
        fast.add(**tagged.step(np.uint64([step])))
    replay.save(path, incremental=True)
    slow.add(**tagged.step(np.uint64([8])))
    replay.save(path, incremental=True)
    rows = replay.read(replay.all_keys()).data
    assert sorted(rows["tag"]) == [5, 32, 33, 34]
    loaded = Replay.load(path)
    again = loaded.read(loaded.all_keys()).data
    for name, array in rows.items():
        np.testing.assert_array_equal(again[name], array)
    check_consistent(loaded)
