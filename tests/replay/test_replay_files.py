"""Saved replays come back whole or not at all, whatever happened to the file or to whoever wrote it."""

import os
import resource
import signal
import struct
import threading
import zlib

import hypothesis.strategies as st
import numpy as np
import pytest
from children import ROOT, run_script, started_script, write_rows
from filled import filled_replay
from hypothesis import HealthCheck, given, settings

from drivetrain.core.errors import Closed, FileFormatError
from drivetrain.replay import Replay
from drivetrain.replay.testing import TaggedRows, check_consistent

TAGGED = TaggedRows(16)
HEAD = struct.Struct("<8sIII")


def tagged_replay(capacity=40, num_rows=56, **options):
    replay = Replay(capacity, TAGGED.spec, **options)
    write_rows(replay, num_rows, num_bytes=16)
    return replay


@pytest.fixture(scope="module")
def good_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "good"
    replay = tagged_replay()
    sample = replay.sample(40)
    replay.update_priorities(sample.keys, np.linspace(0, 100, 40))
    replay.save(path)
    return path.read_bytes()


def assert_refused(path, data, match=None):
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=match) as caught:
        Replay.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("num_rows", [0, 8, 40, 56])
def test_a_loaded_replay_draws_what_the_saved_one_would_have(tmp_path, prioritized, num_rows):
    replay = tagged_replay(num_rows=num_rows, prioritized=prioritized, num_step=1, alpha=0.7, seed=9)
    path = tmp_path / "replay"
    for shared in (False, True):
        replay.save(path)
        loaded = Replay.load(path, shared=shared)
        assert (len(loaded), loaded.capacity, loaded.num_inserted) == (min(40, num_rows), 40, num_rows)
        kept = ("max_priority", "random_block", "total_units", "unit_exponent")
        assert [loaded._table.stats()[k] for k in kept] == [replay._table.stats()[k] for k in kept]
        check_consistent(loaded)
        if num_rows:
            sample = loaded.sample(8, num_batches=5, mode="iid")
            TAGGED.check(sample)
            assert sorted(loaded.sample(len(loaded)).data["tag"]) == list(range(max(0, num_rows - 40), num_rows))
            if prioritized:
                loaded.update_priorities(sample.keys, np.full(sample.keys.shape, 3.0))
        loaded.close()


def test_the_oldest_rows_are_overwritten_first_after_loading(tmp_path):
    tagged_replay().save(tmp_path / "replay")
    loaded = Replay.load(tmp_path / "replay")
    write_rows(loaded, 8, first_tag=1000, num_bytes=16)
    assert sorted(loaded.sample(40).data["tag"]) == [*range(24, 56), *range(1000, 1008)]


def test_the_random_stream_goes_on_where_it_was(tmp_path):
    replay = tagged_replay(num_rows=40, seed=4)
    replay.sample(30)
    replay.save(tmp_path / "replay")
    loaded = Replay.load(tmp_path / "replay")
    for _ in range(3):
        np.testing.assert_array_equal(loaded.sample(7).data["tag"], replay.sample(7).data["tag"])


def test_a_file_cut_short_anywhere_is_refused(tmp_path, good_file):
    for nbytes in range(len(good_file)):
        assert_refused(tmp_path / "cut", good_file[:nbytes])


def test_a_file_with_more_behind_it_is_refused(tmp_path, good_file):
    assert_refused(tmp_path / "longer", good_file + b"\0", "goes on")


@given(st.data())
@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_file_with_any_bits_flipped_is_refused(tmp_path, good_file, data):
    damaged = bytearray(good_file)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    if damaged != good_file:
        assert_refused(tmp_path / "flipped", bytes(damaged))


def test_every_single_byte_of_the_header_matters(tmp_path, good_file):
    header_nbytes = HEAD.unpack_from(good_file)[2]
    for at in range(HEAD.size + header_nbytes):
        damaged = bytearray(good_file)
        damaged[at] ^= 0x11
        assert_refused(tmp_path / "flipped", bytes(damaged))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "not a replay file"),
        (b"PK\x03\x04" + bytes(100), "not a replay file"),
        (b"\x80\x04" + bytes(1000), "not a replay file"),
        (HEAD.pack(b"DRVTRPLY", 3, 0, 0), "newer drivetrain .format 3, this one reads 2.; upgrade"),
        (HEAD.pack(b"DRVTRPLY", 1, 2**32 - 1, 0), "truncated or damaged"),
        (HEAD.pack(b"DRVTRPLY", 1, 2, 0xA3A6BF43) + b"{}", "damaged"),
    ],
)
def test_foreign_and_newer_files_are_refused(tmp_path, data, match):
    assert_refused(tmp_path / "foreign", data, match)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (b'"capacity": 40', b'"capacity": -1'),
        (b'"capacity": 40', b'"capacity": {}'),
        (b'"alpha": 0.6', b'"alpha": 9.5'),
        (b'"num_step": 1', b'"num_step": 0'),
        (b'"schema": [[', b'"schema": [3, ['),
        (b'"tag", 0, [], "<u8", 0', b'"tag", 0, [], "<u8", 8'),  # native code would reach elsewhere
        (b'"tag", 0, [], "<u8", 0', b'"tag", 0, [9], "<u8", 0'),
        (b'"tag", 0, [], "<u8", 0', b'"tag", 9, [], "<u8", 0'),
        (b'"tag", 0, [], "<u8", 0', b'"tag", 0, [], "|O", 0'),
    ],
)
def test_settings_that_make_no_sense_are_refused_even_with_good_checksums(tmp_path, good_file, was, now):
    magic, version, nbytes, _ = HEAD.unpack_from(good_file)
    header = good_file[HEAD.size : HEAD.size + nbytes]
    assert was in header
    header = header.replace(was, now)
    body = HEAD.pack(magic, version, len(header), zlib.crc32(header)) + header + good_file[HEAD.size + nbytes : -4]
    assert_refused(tmp_path / "odd", body + struct.pack("<I", zlib.crc32(body)))


def test_a_file_from_before_a_setting_existed_is_loaded_with_its_default(tmp_path, good_file):
    magic, version, nbytes, _ = HEAD.unpack_from(good_file)
    header = good_file[HEAD.size : HEAD.size + nbytes]
    was = b', "initial_priority": "running_max", "weights_by": "batch"'
    assert was in header
    header = header.replace(was, b"")
    body = HEAD.pack(magic, version, len(header), zlib.crc32(header)) + header + good_file[HEAD.size + nbytes : -4]
    (tmp_path / "old").write_bytes(body + struct.pack("<I", zlib.crc32(body)))
    loaded = Replay.load(tmp_path / "old")
    assert (loaded._settings.initial_priority, loaded._settings.weights_by) == ("running_max", "batch")
    assert len(loaded) == 40


def test_a_missing_file_is_an_ordinary_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Replay.load(tmp_path / "nothing")


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "replay"
    tagged_replay(num_rows=8).save(path)
    before = path.read_bytes()
    big = filled_replay(2**16)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limits[1]))  # as a full disk would
    try:
        with pytest.raises(OSError, match="File too large"):
            big.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["replay"]
    with pytest.raises(FileNotFoundError):
        big.save(tmp_path / "no" / "such" / "folder")


def test_saving_a_closed_replay_leaves_the_old_file(tmp_path):
    path = tmp_path / "replay"
    replay = tagged_replay(num_rows=8)
    replay.save(path)
    before = path.read_bytes()
    replay.close()
    with pytest.raises(Closed):
        replay.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["replay"]


SAVES_FOR_EVER = """
import sys
from filled import filled_replay
replay = filled_replay(2**17)
print("ready", flush=True)
while True:
    replay.save(sys.argv[1])
"""


def test_killed_while_saving_the_file_is_the_old_one_or_the_new_one(tmp_path):
    path = tmp_path / "replay"
    filled_replay(100).save(path)
    seen = set()
    for _ in range(3):
        with started_script(SAVES_FOR_EVER, path) as process:
            assert process.stdout.readline() == b"ready\n"
            while not any(name.endswith(".tmp") for name in os.listdir(tmp_path)):
                pass
            process.kill()
        loaded = Replay.load(path)
        seen.add(len(loaded))
        check_consistent(loaded)
        for leftover in tmp_path.glob(".*.tmp"):
            leftover.unlink()
    assert seen <= {100, 2**17}


def test_a_live_replay_is_saved_with_whole_rows(tmp_path):
    tagged = TaggedRows(200)
    replay = Replay(5000, tagged.spec, shared=True)
    write_rows(replay, 5000, num_bytes=200)
    stop = threading.Event()

    def write():
        first = 0
        while not stop.is_set():
            write_rows(replay, 512, first_tag=first, num_envs=64, num_bytes=200)
            first += 512

    def learn():
        while not stop.is_set():
            sample = replay.sample(64)
            replay.update_priorities(sample.keys, sample.weights * 3)

    threads = [threading.Thread(target=target) for target in (write, learn)]
    for thread in threads:
        thread.start()
    try:
        for number in range(10):
            replay.save(tmp_path / f"{number}")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for number in range(10):
        loaded = Replay.load(tmp_path / f"{number}")
        assert 5000 - 256 <= len(loaded) <= 5000  # rows being written are left out
        check_consistent(loaded)
        for _ in range(5):
            tagged.check(loaded.sample(1024, mode="iid"))


def test_files_hold_no_pickle(good_file):
    assert b"pickle" not in good_file
    source = (ROOT / "src/drivetrain/replay/files.py").read_text()
    assert "import pickle" not in source
    assert "allow_pickle=True" not in source


def test_a_file_is_loaded_in_a_process_that_knows_nothing_of_it(tmp_path, good_file):
    path = tmp_path / "replay"
    path.write_bytes(good_file)
    text = (
        "import sys; from drivetrain.replay import Replay; r = Replay.load(sys.argv[1]); print(len(r), r.num_inserted)"
    )
    assert run_script(text, path).split() == ["40", "56"]
