"""A save that writes only what has changed gives the file that a whole save would have given."""

import os
import resource
import shutil
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from children import started_script, write_rows
from filled import add_rows, filled_replay

from drivetrain.core.errors import Closed, FileFormatError
from drivetrain.replay import Replay, files
from drivetrain.replay.files.format import COMMIT, NUM_COMMITS
from drivetrain.replay.inspection import inspect
from drivetrain.replay.testing import TaggedRows, TaggedStacks, check_consistent

TAGGED = TaggedRows(16)
SHARING = {"share_next_obs": True, "frame_stack": 3}


def tagged_replay(capacity=400, num_rows=400, **options):
    replay = Replay(capacity, TAGGED.spec, **options)
    write_rows(replay, num_rows, num_bytes=16)
    return replay


def stacked_replay(capacity=400, num_rows=400, num_bytes=16, **options):
    replay = Replay(capacity, TaggedStacks(num_bytes, stack=3).spec, **SHARING, **options)
    write_rows(replay, num_rows, num_bytes=num_bytes)
    return replay


def num_parts(path):
    return len(inspect(path).parts)


def contents(replay):
    """What tells one loaded replay from another: counters, priorities oldest first, and what it draws next."""
    stats = replay._table.stats()
    kept = [stats[name] for name in ("size", "max_priority", "random_block", "num_inserted", "unit_exponent")]
    keys = replay.all_keys()
    priorities = replay.priorities(keys) if replay._settings.prioritized else np.zeros(len(keys))
    samples = [replay.sample(len(replay), mode=mode) for mode in ("stratified", "iid", "iid", "iid")]
    return {
        "counters": kept,
        "alpha": replay.alpha,
        "priorities": priorities.tolist(),
        "drawn": [sample.map(np.ndarray.tolist) for sample in samples],
    }


def contents_of(path):
    with Replay.load(path) as replay:
        check_consistent(replay)
        return contents(replay)


def assert_loads_as_saved_whole(path, replay):
    """The file holds what a whole save of the same replay holds."""
    whole = path.with_name("whole")
    settings = {**replay._settings.to_json(), "alpha": replay.alpha}
    files.save(whole, replay._table, settings, replay._schema, None)
    assert contents_of(path) == contents_of(whole)
    whole.unlink()


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
    assert replay.save(path, incremental=True) < 400


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


@pytest.fixture(params=[tagged_replay, stacked_replay])
def two_saves(request, tmp_path):
    """A file after two saves, and how it was after the first."""
    replay, path = request.param(24, 24), tmp_path / "two"
    replay.save(path)
    first = path.read_bytes()
    write_rows(replay, 8, first_tag=500, num_bytes=16)
    replay.update_priorities(replay.all_keys()[:3], np.array([9.0, 0.0, 1.0]))
    replay.save(path, incremental=True)
    assert num_parts(path) == 2
    return first, path.read_bytes()


def test_killed_at_any_byte_of_an_incremental_save_the_file_is_that_of_the_save_before(tmp_path, two_saves):
    first, second = two_saves
    path = tmp_path / "killed"
    path.write_bytes(second)
    after = contents_of(path)
    path.write_bytes(first)
    expected = contents_of(path)
    assert expected != after
    for nbytes in range(len(first) + 1, len(second) + 1):  # a part that nothing says the end of
        path.write_bytes(first + second[len(first) : nbytes])
        with pytest.warns(UserWarning, match="last part was not finished"):
            assert contents_of(path) == expected
    with pytest.warns(UserWarning, match=f"{len(second) - len(first)} bytes are left out"):
        replay = Replay.load(path)
    write_rows(replay, 8, first_tag=900, num_bytes=16)
    replay.save(path, incremental=True)  # takes the place of what is left out
    assert num_parts(path) == 2
    assert_loads_as_saved_whole(path, replay)


def test_a_last_part_cut_anywhere_is_left_out_and_a_cut_before_it_is_refused(tmp_path, two_saves):
    first, second = two_saves
    path = tmp_path / "cut"
    path.write_bytes(first)
    expected = contents_of(path)
    for nbytes in range(len(first), len(second)):
        path.write_bytes(second[:nbytes])
        with pytest.warns(UserWarning, match="last part is cut short"):
            replay = Replay.load(path)
        assert contents(replay) == expected
        if nbytes % 50 == 0:
            assert replay.save(path, incremental=True) == path.stat().st_size  # written anew
        replay.close()
    for nbytes in range(len(first)):
        path.write_bytes(second[:nbytes])
        with pytest.raises(FileFormatError, match=r"truncated|not a replay"):
            Replay.load(path)


def test_every_byte_of_every_part_matters(tmp_path, two_saves):
    _, good = two_saves
    path = tmp_path / "flipped"
    for at in range(len(good)):
        damaged = bytearray(good)
        damaged[at] ^= 0x41
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError):
            Replay.load(path)


def test_a_part_with_good_sums_that_says_what_cannot_be_is_refused(tmp_path, two_saves):
    _, good = two_saves
    path = tmp_path / "odd"
    path.write_bytes(good)
    with files.opened(path) as saved:
        start = saved._start
    places = slice(start - NUM_COMMITS * COMMIT.size, start)
    for commits in (bytes(NUM_COMMITS * COMMIT.size), good[places][COMMIT.size :] + good[places][: COMMIT.size]):
        path.write_bytes(good[: places.start] + commits + good[start:])
        with pytest.raises(FileFormatError, match="where it ends"):
            Replay.load(path)


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


def test_an_incremental_save_that_fails_leaves_the_file_as_it_was(tmp_path):
    replay, path = filled_replay(2**14), tmp_path / "replay"
    replay.save(path)
    add_rows(replay, 2**12)
    before = path.read_bytes()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 2**12, limits[1]))  # as a full disk would
    try:
        with pytest.raises(OSError, match="File too large"):
            replay.save(path, incremental=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    assert path.read_bytes() == before
    replay.save(path, incremental=True)
    assert_loads_as_saved_whole(path, replay)
    replay.close()
    before = path.read_bytes()
    with pytest.raises(Closed):
        replay.save(path, incremental=True)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["replay"]


SAVES_FOR_EVER = """
import sys
from children import write_rows
from test_incremental_saves import stacked_replay
replay, first = stacked_replay(4096, 4096, num_bytes=64), 10**6
replay.save(sys.argv[1])
print("ready", flush=True)
while True:
    write_rows(replay, 64, first_tag=first, num_bytes=64)
    replay.save(sys.argv[1], incremental=True)
    first += 1000
"""


def test_killed_at_random_while_saving_incrementally_the_file_loads_whole(tmp_path):
    path, tagged, rng = tmp_path / "replay", TaggedStacks(64, stack=3), np.random.default_rng(0)
    for _ in range(3):
        with started_script(SAVES_FOR_EVER, path) as process:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(0.2 + rng.random() * 0.1)  # killed anywhere
            process.kill()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of an unfinished part, if it came to that
            loaded = Replay.load(path)
        check_consistent(loaded)
        assert len(loaded) > 3500  # short episodes take more frames
        tagged.check(loaded.sample(1024, mode="iid"))


def live(replay, tagged, num_bytes, save):
    """Call `save` ten times while others write and learn."""
    stop = threading.Event()

    def write():
        first = 10**6
        while not stop.is_set():
            write_rows(replay, 512, first_tag=first, num_envs=64, num_bytes=num_bytes)
            first += 10**4

    def learn():
        while not stop.is_set():
            sample = replay.sample(64)
            replay.update_priorities(sample.keys, sample.weights * 3)

    threads = [threading.Thread(target=target) for target in (write, learn)]
    for thread in threads:
        thread.start()
    try:
        for number in range(10):
            save(number)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("stack", [0, 3])
def test_a_live_replay_is_saved_incrementally_with_whole_rows(tmp_path, stack):
    tagged = TaggedStacks(200, stack=3) if stack else TaggedRows(200)
    replay = Replay(5000, tagged.spec, shared=True, **(SHARING if stack else {}))
    write_rows(replay, 5000, num_bytes=200)
    path = tmp_path / "replay"

    def save(number):
        replay.save(path, incremental=True)
        shutil.copy(path, tmp_path / f"{number}")

    live(replay, tagged, 200, save)
    for number in range(10):
        loaded = Replay.load(tmp_path / f"{number}")
        assert 5000 - (1500 if stack else 256) <= len(loaded) <= 5000  # rows being written are left out
        check_consistent(loaded)
        for _ in range(5):
            tagged.check(loaded.sample(1024, mode="iid"))
    replay.save(path, incremental=True)
    assert_loads_as_saved_whole(path, replay)
