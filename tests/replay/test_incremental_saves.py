"""A save that writes only what has changed gives the file that a whole save would have given."""

import os
import shutil

import numpy as np
import pytest
from children import write_rows
from filled import filled_replay
from saved_files import assert_loads_as_saved_whole, num_parts, stacked_replay, tagged_replay

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.replay import Replay
from drivetrain.replay.files import format, part, writing
from drivetrain.replay.files.frames import FramesOut
from drivetrain.replay.inspection import inspect
from drivetrain.replay.testing import TaggedStacks


@pytest.mark.parametrize("make", [tagged_replay, stacked_replay])
@pytest.mark.parametrize("prioritized", [True, False])
def test_any_number_of_incremental_saves_loads_as_one_whole_save_would(tmp_path, make, prioritized):
    replay, path = make(num_rows=300, prioritized=prioritized), tmp_path / "replay"
    assert replay.save(path) == path.stat().st_size
    rng, before = np.random.default_rng(0), path.stat().st_size
    for round in range(1, 9):
        write_rows(replay, 8 * int(rng.integers(0, 4)), first_tag=1000 * round, num_bytes=16)
        sample = replay.sample(20)
        if prioritized:
            replay.update_priorities(sample.keys, rng.pareto(1.0, 20))
        nbytes = replay.save(path, incremental=True)
        assert nbytes < before / 3
        assert num_parts(path) == round + 1
        assert_loads_as_saved_whole(path, replay)


def test_nothing_new_costs_next_to_nothing(tmp_path):
    replay, path = filled_replay(2**14), tmp_path / "replay"
    replay.save(path)
    assert replay.save(path, incremental=True) == 296, "as docs/replay.md says"


def test_only_new_rows_and_changed_priorities_are_written(tmp_path):
    replay, path = tagged_replay(), tmp_path / "replay"
    replay.save(path)
    write_rows(replay, 24, first_tag=1000, num_bytes=16)
    keys = replay.all_keys()
    replay.update_priorities(keys[100:110], np.full(10, 7.0))
    replay.save(path, incremental=True)
    assert inspect(path).parts[1] == inspect(path).parts[1] | {"num_rows": 24, "num_leaves": 10, "num_frames": 0}


@pytest.mark.parametrize("make", [tagged_replay, stacked_replay])
def test_a_loaded_replay_goes_on_with_the_file_it_came_from(tmp_path, make):
    path = tmp_path / "replay"
    make(num_rows=560).save(path)  # the oldest row is in the middle
    for round in range(1, 6):
        with Replay.load(path) as replay:
            for num_rows in (16, 8):  # rows have moved once, not twice
                write_rows(replay, num_rows, first_tag=1000 * round + num_rows, num_bytes=16)
                replay.update_priorities(replay.sample(9).keys, np.arange(9.0))
                replay.save(path, incremental=True)
                assert_loads_as_saved_whole(path, replay)
    assert num_parts(path) == 11


def test_rows_with_gaps_between_them_move_together_in_the_file_too(tmp_path):
    replay, path = stacked_replay(300, 0), tmp_path / "replay"
    writers, tagged = [replay.writer(3), replay.writer(5)], TaggedStacks(16, stack=3, episode=2)
    for t in range(60):  # short episodes: frames run out, rows end early
        for writer, first, num in ((writers[0], 0, 3), (writers[1], 10, 5)):
            tags = ((np.arange(num, dtype=np.uint64) + np.uint64(first)) << np.uint64(32)) + np.uint64(t)
            writer.add(**tagged.step(tags))
        if t % 6 == 0:
            replay.save(path, incremental=True)
            assert_loads_as_saved_whole(path, replay)
    assert len(replay) < 300
    replay.save(path)
    for first in range(100, 104):
        with Replay.load(path) as replay:
            writer = replay.writer(2)
            for t in range(3):
                writer.add(**tagged.step(np.array([first << 32, (first + 50) << 32], np.uint64) + np.uint64(t)))
            replay.save(path, incremental=True)
            assert_loads_as_saved_whole(path, replay)
            tagged.check(replay.sample(len(replay)))
    assert num_parts(path) > 1


def removed(path, replay):
    path.unlink()


def replaced(path, replay):
    shutil.copy(path, path.with_suffix(".copy"))
    os.replace(path.with_suffix(".copy"), path)


def longer(path, replay):
    with open(path, "ab") as file:
        file.write(b"\0")


def shorter(path, replay):
    os.truncate(path, path.stat().st_size - 1)


def written_by_another(path, replay):
    other = Replay.attach(replay.handle())
    other.save(path)
    other.close()


def added_to_by_another(path, replay):
    with Replay.load(path) as other:
        other.save(path, incremental=True)


@pytest.mark.parametrize("what", [removed, replaced, longer, shorter, written_by_another, added_to_by_another])
def test_a_file_that_is_not_as_it_was_left_is_written_anew(tmp_path, what):
    replay, path = tagged_replay(shared=True), tmp_path / "replay"
    replay.save(path)
    what(path, replay)
    write_rows(replay, 8, first_tag=1000, num_bytes=16)
    assert replay.save(path, incremental=True) == path.stat().st_size
    assert_loads_as_saved_whole(path, replay)
    replay.save(path, incremental=True)
    assert num_parts(path) == 2


def test_a_file_that_was_added_to_while_it_was_read_is_written_anew(tmp_path, monkeypatch):
    replay, path = tagged_replay(), tmp_path / "replay"
    replay.save(path)
    added_to_by_another(path, replay)
    monkeypatch.setattr(writing, "identity_of", lambda fd: replay._known.identity)  # as if seen after that
    assert replay.save(path, incremental=True) == path.stat().st_size
    monkeypatch.undo()
    assert_loads_as_saved_whole(path, replay)


def assert_order(path, replay):
    """The file has the rows in the order in which they came, and of a smaller replay the newest."""
    tags = replay.read(replay.all_keys()).data["tag"]
    loaded, smaller = Replay.load(path), Replay.load(path, capacity=50)
    np.testing.assert_array_equal(loaded.read(loaded.all_keys()).data["tag"], tags)
    np.testing.assert_array_equal(smaller.read(smaller.all_keys()).data["tag"], tags[-50:])
    assert loaded.num_inserted == replay.num_inserted


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("num_meanwhile", [8, 120, 512])
def test_rows_that_come_while_frames_are_written_are_the_newest_of_the_file(
    tmp_path, monkeypatch, incremental, num_meanwhile
):
    replay, path, write_frames = stacked_replay(), tmp_path / "replay", FramesOut.blocks
    replay.save(path)
    write_rows(replay, 80, first_tag=1000, num_bytes=16)

    def followed_by_rows(frames):
        yield from write_frames(frames)
        write_rows(replay, num_meanwhile, first_tag=2000, num_bytes=16)

    monkeypatch.setattr(FramesOut, "blocks", followed_by_rows)
    replay.save(path, incremental=incremental)
    monkeypatch.undo()
    assert_order(path, replay)


@pytest.mark.parametrize("make", [tagged_replay, stacked_replay])
@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("num_meanwhile", [8, 120, 512])
def test_rows_that_come_while_rows_are_written_are_the_newest_of_the_file(
    tmp_path, monkeypatch, make, incremental, num_meanwhile
):
    replay, path, changes = make(), tmp_path / "replay", part._changes
    replay.save(path)
    write_rows(replay, 80, first_tag=1000, num_bytes=16)
    first_tags = iter((2000, 3000))
    monkeypatch.setattr(format, "MOST_ROWS", 16)

    def beside_a_writer(*of_block):
        """Rows come behind the first and the second block of the walk."""
        found = changes(*of_block)
        if first_tag := next(first_tags, None):
            write_rows(replay, num_meanwhile, first_tag=first_tag, num_bytes=16)
        return found

    monkeypatch.setattr(part, "_changes", beside_a_writer)
    replay.save(path, incremental=incremental)
    monkeypatch.undo()
    assert_order(path, replay)
    assert_loads_as_saved_whole(path, replay)


@pytest.mark.parametrize("incremental", [False, True])
def test_frames_that_are_all_being_written_are_saved_with_the_rows_that_refer_to_them(
    tmp_path, monkeypatch, incremental
):
    replay, path, export, num_calls = stacked_replay(), tmp_path / "replay", FramesOut._export, 0
    replay.save(path)
    write_rows(replay, 80, first_tag=1000, num_bytes=16)

    def of_nobody_at_first(frames, slots):
        nonlocal num_calls
        num_calls += 1
        copied, generations = export(frames, slots)
        return copied, generations * (num_calls > 1)

    monkeypatch.setattr(FramesOut, "_export", of_nobody_at_first)
    replay.save(path, incremental=incremental)
    assert num_calls > 1
    monkeypatch.undo()
    assert_loads_as_saved_whole(path, replay)


def test_a_file_known_from_elsewhere_is_another_file(tmp_path):
    replay = tagged_replay()
    replay.save(tmp_path / "one")
    assert replay.save(tmp_path / "other", incremental=True) == (tmp_path / "other").stat().st_size
    assert replay.save(tmp_path / "one", incremental=True) == (tmp_path / "one").stat().st_size


@pytest.mark.parametrize("make", [tagged_replay, stacked_replay])
def test_a_file_that_would_be_dead_by_more_than_half_is_written_anew(tmp_path, make):
    replay, path = make(), tmp_path / "replay"
    whole, sizes = replay.save(path), []
    for round in range(1, 40):
        write_rows(replay, 80, first_tag=1000 * round, num_bytes=16)
        replay.save(path, incremental=True)
        sizes.append(path.stat().st_size)
    assert max(sizes) < 2.2 * whole
    assert min(sizes) < 1.3 * whole
    assert_loads_as_saved_whole(path, replay)


def test_a_change_of_alpha_is_saved_with_what_has_changed(tmp_path):
    replay, path = tagged_replay(alpha=0.6), tmp_path / "replay"
    replay.update_priorities(replay.sample(50).keys, np.linspace(0, 9, 50))
    replay.save(path)
    replay.set_alpha(0.3)
    replay.save(path, incremental=True)
    assert num_parts(path) == 2
    with Replay.load(path) as loaded:
        assert loaded.alpha == 0.3
    assert_loads_as_saved_whole(path, replay)


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("num_rows", [100, 256, 700])
def test_a_loaded_replay_draws_the_same_rows_as_the_saved_one_would(tmp_path, prioritized, num_rows):
    spec = {"x": ((), "int64")}
    replay, path = Replay(256, spec=spec, prioritized=prioritized, seed=3), tmp_path / "replay"
    writer = replay.writer(num_envs=4)
    for first in range(0, num_rows, 4):
        step = {"reward": np.zeros(4, np.float32), "terminated": np.ones(4, bool), "truncated": np.zeros(4, bool)}
        writer.add(x=np.arange(first, first + 4), **step)
    if prioritized:
        replay.update_priorities(replay.all_keys(), np.random.default_rng(0).random(len(replay)))
    replay.save(path)
    loaded = Replay.load(path)
    for one in (replay, loaded):  # and so it is after both have gone on
        one.writer(num_envs=2).add(x=np.arange(2), **{name: values[:2] for name, values in step.items()})
    draws = [one.sample(64, num_batches=3) for one in (replay, loaded)]
    assert np.array_equal(draws[0].data["x"], draws[1].data["x"])
    assert np.array_equal(draws[0].weights, draws[1].weights)


def test_the_save_before_the_last_can_be_loaded_by_its_number_and_older_ones_cannot(tmp_path):
    replay, path, sizes = tagged_replay(), tmp_path / "replay", {}
    for _ in range(3):
        write_rows(replay, 8, first_tag=1000, num_bytes=16)
        replay.save(path, incremental=True)
        sizes[replay.save_number] = replay.num_inserted
    assert list(sizes) == [1, 2, 3]
    for number in (2, 3):
        with Replay.load(path, save_number=number) as loaded:
            assert loaded.num_inserted == sizes[number]
    for number in (1, 4):
        with pytest.raises(FileFormatError, match=f"save {number} is not in it"):
            Replay.load(path, save_number=number)


def test_a_save_is_incremental_or_not(tmp_path):
    with pytest.raises(InvalidInput, match="incremental: expected True or False, got 'no'"):
        filled_replay(8).save(tmp_path / "file", incremental="no")
    assert not (tmp_path / "file").exists()
