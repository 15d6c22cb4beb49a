"""Files of which a power cut, or a copy that was broken off, has left pages out: what can be read is told."""

import re

import numpy as np
import pytest
from children import write_rows
from saved_files import contents, contents_of, tagged_replay

from drivetrain.core.errors import FileFormatError
from drivetrain.replay import Replay, files
from drivetrain.replay.files.format import COMMIT, NUM_COMMITS

PAGE_NBYTES = 4096


@pytest.fixture
def three_saves(tmp_path):
    """A file after three saves, where its parts end, and what it held after the second."""
    replay, path, ends = tagged_replay(1000, 240), tmp_path / "three", []
    for number in range(3):
        write_rows(replay, 160, first_tag=1000 * number, num_bytes=16)
        replay.save(path, incremental=True)
        ends.append(path.stat().st_size)
        if number == 1:
            before = contents_of(path)
    return path.read_bytes(), ends, before


def test_of_a_file_whose_last_part_lacks_a_page_the_save_before_is_named_and_can_be_read(tmp_path, three_saves):
    good, ends, before = three_saves
    path = tmp_path / "torn"
    for page in range(len(good) // PAGE_NBYTES + 1):
        begin = page * PAGE_NBYTES
        torn = bytearray(good)
        torn[begin : begin + PAGE_NBYTES] = bytes(len(torn[begin : begin + PAGE_NBYTES]))
        path.write_bytes(torn)
        with pytest.raises(FileFormatError, match="use an older copy" if page else "not a replay file") as caught:
            Replay.load(path)
        is_last = begin >= ends[1]
        assert str(caught.value).endswith(", or load the save before, which is whole (save_number=2)") == is_last
        if is_last:
            assert contents(Replay.load(path, save_number=2)) == before
    assert ends[2] - ends[1] > 2 * PAGE_NBYTES


def test_a_file_that_ends_too_early_says_how_long_it_is_and_should_be(tmp_path, three_saves):
    good, ends, _ = three_saves
    path = tmp_path / "cut"
    path.write_bytes(good[: ends[0]])
    lengths = rf"expected {ends[1]:,} bytes at least, got {ends[0]:,}"
    with pytest.raises(FileFormatError, match=rf"truncated \({lengths}\); use an older copy$"):
        Replay.load(path)
    path.write_bytes(good[: ends[1]])
    with pytest.warns(UserWarning, match=re.escape(f"{path}: its last part is cut short; 0 bytes are left out")):
        assert len(Replay.load(path)) == 560


def test_commits_lie_within_one_sector_whatever_is_before_them(tmp_path):
    """A write across two may be torn, and with it the one of the save before."""
    path, starts = tmp_path / "replay", set()
    for length in range(1, 513, 13):
        with Replay(4, {"x" * length: ((), "uint8")}) as replay:
            replay.save(path)
        with files.opened(path) as saved:
            starts.add((saved._start - 1) % 512)
        assert len(Replay.load(path)) == 0
    assert min(starts) >= NUM_COMMITS * COMMIT.size - 1
    assert len(np.unique([*starts])) > 30
