"""Whatever happens to an incremental save, or to its file, the file loads as of a save, or is refused."""

import os
import re
import shutil
import time
import warnings

import numpy as np
import pytest
from children import started_script, write_rows
from filled import add_rows, filled_replay
from saved_files import (
    SHARING,
    assert_loads_as_saved_whole,
    contents,
    contents_of,
    num_parts,
    others_at_work,
    stacked_replay,
    tagged_replay,
)

from drivetrain.core.errors import Closed, FileFormatError
from drivetrain.replay import Replay, files
from drivetrain.replay.files.format import COMMIT, NUM_COMMITS
from drivetrain.replay.testing import TaggedRows, TaggedStacks, check_consistent

STRIDES = [7, pytest.param(1, marks=pytest.mark.slow)]
"""Of bytes, of which each is tried by the slow ones."""


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


@pytest.mark.whole
@pytest.mark.parametrize("stride", STRIDES)
def test_killed_at_any_byte_of_an_incremental_save_the_file_is_that_of_the_save_before(tmp_path, two_saves, stride):
    first, second = two_saves
    path = tmp_path / "killed"
    path.write_bytes(second)
    after = contents_of(path)
    path.write_bytes(first)
    expected = contents_of(path)
    assert expected != after
    cuts = *range(len(first) + 1, len(second), stride), len(second)
    for nbytes in cuts:  # a part that nothing says the end of
        path.write_bytes(first + second[len(first) : nbytes])
        with pytest.warns(UserWarning, match="last part was not finished"):
            assert contents_of(path) == expected
    with pytest.warns(UserWarning, match=f"{len(second) - len(first)} bytes are left out"):
        replay = Replay.load(path)
    write_rows(replay, 8, first_tag=900, num_bytes=16)
    replay.save(path, incremental=True)  # takes the place of what is left out
    assert num_parts(path) == 2
    assert_loads_as_saved_whole(path, replay)


@pytest.mark.whole
@pytest.mark.parametrize("stride", STRIDES)
def test_a_last_part_cut_anywhere_is_left_out_and_a_cut_before_it_is_refused(tmp_path, two_saves, stride):
    first, second = two_saves
    path = tmp_path / "cut"
    path.write_bytes(first)
    expected = contents_of(path)
    for nbytes in range(len(first), len(second), stride):
        path.write_bytes(second[:nbytes])
        with pytest.warns(UserWarning, match="last part is cut short"):
            replay = Replay.load(path)
        assert contents(replay) == expected
        if nbytes % (50 * stride) < stride:
            assert replay.save(path, incremental=True) == path.stat().st_size  # written anew
        replay.close()
    for nbytes in range(0, len(first), stride):
        path.write_bytes(second[:nbytes])
        with pytest.raises(FileFormatError, match=r"truncated|not a replay"):
            Replay.load(path)


@pytest.mark.slow  # a load for each byte
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


def test_an_incremental_save_that_fails_leaves_the_file_as_it_was(tmp_path, full_disk):
    replay, path = filled_replay(2**14), tmp_path / "replay"
    replay.save(path)
    add_rows(replay, 2**12)
    before = path.read_bytes()
    with full_disk(len(before) + 2**12), pytest.raises(OSError, match=rf"File too large: '{re.escape(str(path))}'$"):
        replay.save(path, incremental=True)
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
from saved_files import stacked_replay
replay, first = stacked_replay(4096, 4096, num_bytes=64), 10**6
replay.save(sys.argv[1])
print("ready", flush=True)
while True:
    write_rows(replay, 64, first_tag=first, num_bytes=64)
    replay.save(sys.argv[1], incremental=True)
    first += 1000
"""


@pytest.mark.whole
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


@pytest.mark.whole
@pytest.mark.parametrize("stack", [0, 3])
def test_a_live_replay_is_saved_incrementally_with_whole_rows(tmp_path, stack):
    tagged = TaggedStacks(200, stack=3) if stack else TaggedRows(200)
    replay = Replay(5000, tagged.spec, shared=True, **(SHARING if stack else {}))
    write_rows(replay, 5000, num_bytes=200)
    path = tmp_path / "replay"

    with others_at_work(replay, num_bytes=200):
        for number in range(10):
            replay.save(path, incremental=True)
            shutil.copy(path, tmp_path / f"{number}")
    held = []
    for number in range(10):
        loaded = Replay.load(tmp_path / f"{number}")
        held.append(len(loaded))
        check_consistent(loaded)
        for _ in range(5):
            tagged.check(loaded.sample(1024, mode="iid"))
    # Rows being written are left out, and those whose frames were overwritten: more where a save is interrupted.
    assert max(held) <= 5000
    assert (max if stack else min)(held) >= 5000 - (1500 if stack else 256)
    replay.save(path, incremental=True)
    assert_loads_as_saved_whole(path, replay)
