"""Saved replays come back whole or not at all, whatever happened to the file or to whoever wrote it."""

import fcntl
import json
import os
import zlib

import hypothesis.strategies as st
import numpy as np
import pytest
from children import ROOT, run_script, started_script, write_rows
from filled import filled_replay
from hypothesis import HealthCheck, given, settings
from saved_files import others_at_work, tagged_replay

from drivetrain.core._native import process_start_time
from drivetrain.core.errors import Closed, FileFormatError, InvalidInput, SegmentError
from drivetrain.replay import Replay
from drivetrain.replay.files.format import COMMIT, COUNT, CRC, HEAD, NUM_COMMITS, Commit
from drivetrain.replay.inspection import inspect
from drivetrain.replay.testing import TaggedRows, check_consistent

TAGGED = TaggedRows(16)


def small_replay(**options):
    """Whose ring has turned."""
    return tagged_replay(40, 56, **options)


@pytest.fixture(scope="module")
def good_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "good"
    replay = small_replay()
    sample = replay.sample(40)
    replay.update_priorities(sample.keys, np.linspace(0, 100, 40))
    replay.save(path)
    return path.read_bytes()


def commit_of(data):
    """Where the parts of a file of one part end, as it says itself."""
    return bytes(COMMIT.size) + Commit(1, len(data)).pack()


def parts_of(data):
    return data[HEAD.size + HEAD.unpack_from(data)[2] + NUM_COMMITS * COMMIT.size :]


def assert_refused(path, data, match=None):
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=match) as caught:
        Replay.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("num_rows", [0, 8, 40, 56])
def test_a_loaded_replay_draws_what_the_saved_one_would_have(tmp_path, prioritized, num_rows):
    replay = tagged_replay(40, num_rows=num_rows, prioritized=prioritized, num_step=1, alpha=0.7, seed=9)
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
    small_replay().save(tmp_path / "replay")
    loaded = Replay.load(tmp_path / "replay")
    write_rows(loaded, 8, first_tag=1000, num_bytes=16)
    assert sorted(loaded.sample(40).data["tag"]) == [*range(24, 56), *range(1000, 1008)]


def test_the_random_stream_goes_on_where_it_was(tmp_path):
    replay = tagged_replay(40, num_rows=40, seed=4)
    replay.sample(30)
    replay.save(tmp_path / "replay")
    loaded = Replay.load(tmp_path / "replay")
    for _ in range(3):
        np.testing.assert_array_equal(loaded.sample(7).data["tag"], replay.sample(7).data["tag"])


@pytest.mark.whole
def test_a_file_cut_short_anywhere_is_refused(tmp_path, good_file):
    for nbytes in range(len(good_file)):
        assert_refused(tmp_path / "cut", good_file[:nbytes])


@pytest.mark.whole
@given(st.data())
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        (HEAD.pack(b"DRVTRPLY", 4, 0, 0), "newer drivetrain .format 4, this one reads 3.; upgrade"),
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
        (b'"<u8"', b'["<u8", [1' + b"0" * 30 + b"]]"),
    ],
)
def test_settings_that_make_no_sense_are_refused_even_with_good_checksums(tmp_path, good_file, was, now):
    _, _, nbytes, _ = HEAD.unpack_from(good_file)
    (tmp_path / "same").write_bytes(good_file[: HEAD.size + nbytes] + commit_of(good_file) + parts_of(good_file))
    Replay.load(tmp_path / "same")  # only the change is at fault
    assert_refused(tmp_path / "odd", forged(good_file, was, now), "settings make no sense")


def forged(good_file, was, now):
    """A file with another header, and good checksums."""
    magic, version, nbytes, _ = HEAD.unpack_from(good_file)
    header = good_file[HEAD.size : HEAD.size + nbytes]
    assert was in header
    header = header.replace(was, now)
    head = HEAD.pack(magic, version, len(header), zlib.crc32(header)) + header
    commit = bytes(COMMIT.size) + Commit(1, len(good_file) + len(header) - nbytes).pack()
    return head + commit + parts_of(good_file)


def test_a_file_for_which_memory_is_short_is_named_whoever_reads_it(tmp_path, good_file):
    path = tmp_path / "huge"
    path.write_bytes(forged(good_file, b'"capacity": 40', b'"capacity": 4294967295'))
    for read in (Replay.load, inspect, lambda path: Replay.load(path, capacity=1)):
        with pytest.raises(SegmentError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("brackets", [b"[" * 10**5, b'{"a":' * 10**5])
def test_brackets_without_end_are_damage_in_the_header_and_in_the_state(tmp_path, good_file, brackets):
    head = HEAD.pack(b"DRVTRPLY", 3, len(brackets), zlib.crc32(brackets)) + brackets
    assert_refused(tmp_path / "header", head + bytes(100), "damaged header")
    assert_refused(tmp_path / "state", with_state(good_file, brackets[: 2**16]), "a state that is no JSON")


def test_a_number_beyond_all_others_in_the_state_is_damage(tmp_path, good_file):
    state = {**state_of(good_file), "max_priority": 10**400}
    assert_refused(tmp_path / "state", with_state(good_file, json.dumps(state).encode()), "a state that makes no sense")


def state_of(good_file):
    part = parts_of(good_file)
    return json.loads(part[COUNT.size : COUNT.size + COUNT.unpack_from(part)[0]])


def with_state(good_file, state):
    """A file with another state, and good checksums."""
    part = parts_of(good_file)
    behind = part[COUNT.size + COUNT.unpack_from(part)[0] : -CRC.size]
    part = COUNT.pack(len(state)) + state + behind
    part += CRC.pack(zlib.crc32(part))
    head = good_file[: HEAD.size + HEAD.unpack_from(good_file)[2]]
    commit = bytes(COMMIT.size) + Commit(1, len(head) + NUM_COMMITS * COMMIT.size + len(part)).pack()
    return head + commit + part


def test_a_file_from_before_a_setting_existed_is_loaded_with_its_default(tmp_path, good_file):
    magic, version, nbytes, _ = HEAD.unpack_from(good_file)
    header = good_file[HEAD.size : HEAD.size + nbytes]
    was = b', "initial_priority": "running_max", "weights_by": "batch"'
    assert was in header
    header = header.replace(was, b"")
    head = HEAD.pack(magic, version, len(header), zlib.crc32(header)) + header
    commit = bytes(COMMIT.size) + Commit(1, len(good_file) + len(header) - nbytes).pack()
    (tmp_path / "old").write_bytes(head + commit + parts_of(good_file))
    loaded = Replay.load(tmp_path / "old")
    assert (loaded._settings.initial_priority, loaded._settings.weights_by) == ("running_max", "batch")
    assert len(loaded) == 40


@pytest.mark.parametrize("number", [0, -1, "1", 1.0])
def test_a_save_number_that_none_has_is_refused(good_file, number):
    with pytest.raises(InvalidInput, match="save_number: expected an integer >= 1"):
        Replay.load(good_file, save_number=number)


def test_a_missing_file_is_an_ordinary_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Replay.load(tmp_path / "nothing")


@pytest.mark.parametrize("path", [None, 3, b"replay", "", "a\0b", "~no-such-user/replay"])
def test_what_is_no_path_is_refused(path):
    for call in (tagged_replay(4).save, Replay.load):
        with pytest.raises(InvalidInput, match="path: expected the path of a file, got"):
            call(path)


def test_a_tilde_is_a_user_s_folder_and_a_name_where_a_dot_stands_before_it(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "~home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for path, meant in {"~/replay": "home/replay", "./~replay": "~replay", "./~home/replay": "~home/replay"}.items():
        tagged_replay(4, 4).save(path)
        assert len(Replay.load(path)) == 4
        assert (tmp_path / meant).is_file()


def test_a_read_that_fails_names_the_file():
    with pytest.raises(OSError, match="Input/output error: '/proc/self/mem'"):  # whose first page is not there
        Replay.load("/proc/self/mem")


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, full_disk):
    path = tmp_path / "replay"
    tagged_replay(40, num_rows=8).save(path)
    before = path.read_bytes()
    big = filled_replay(2**16)
    with full_disk(2**16), pytest.raises(OSError, match="File too large"):
        big.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["replay"]
    with pytest.raises(FileNotFoundError, match=r"'[^']*/no/such/folder'$"):
        big.save(tmp_path / "no" / "such" / "folder")


def test_saving_a_closed_replay_leaves_the_old_file(tmp_path):
    path = tmp_path / "replay"
    replay = tagged_replay(40, num_rows=8)
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


@pytest.mark.whole
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


@pytest.mark.parametrize("incremental", [False, True])
def test_what_dead_processes_left_aside_is_removed_by_the_next_save_of_that_file(tmp_path, incremental):
    replay = tagged_replay(40, num_rows=8)
    if incremental:
        replay.save(tmp_path / "replay")  # to which the next adds
    path, script = tmp_path / "replay", "import os, sys; print(os.getpid())"
    dead = int(run_script(script))
    mine, start = os.getpid(), process_start_time(os.getpid())
    stale = [f".replay.{dead}.{start}.7.tmp", f".replay.{mine}.{start - 1}.7.tmp"]  # gone; another's number again
    kept = [f".replay.{mine}.{start}.7.tmp", f".other.{dead}.{start}.7.tmp", f".replay.x.{dead}.{start}.7.tmp"]
    locked = f".replay.{dead}.{start}.8.tmp"  # as of a live process that cannot be seen from here
    for name in [*stale, *kept, locked]:
        (tmp_path / name).write_bytes(b"x")
    with open(tmp_path / locked, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        replay.save(path, incremental=incremental)
        assert sorted(os.listdir(tmp_path)) == sorted(["replay", *kept, locked])
    replay.save(path, incremental=incremental)
    assert sorted(os.listdir(tmp_path)) == sorted(["replay", *kept])


@pytest.mark.parametrize("priority", [0.0, 1e4, 3e12, 3.4e38])
def test_priorities_come_back_to_the_last_bit(tmp_path, priority):
    replay = small_replay(prioritized=True, alpha=1.0)
    rng = np.random.default_rng(0)
    for _ in range(3):
        replay.update_priorities(replay.sample(40).keys, (rng.random(40) * priority).astype(np.float32))
    replay.save(tmp_path / "replay")
    for capacity in (None, 40, 1000, 2**16):
        loaded = Replay.load(tmp_path / "replay", capacity=capacity)
        assert loaded.priorities(loaded.all_keys()).tolist() == replay.priorities(replay.all_keys()).tolist()
        check_consistent(loaded)


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("capacity", [1, 7, 39, 40, 41, 500])
def test_another_capacity_keeps_the_newest_rows_that_fit(tmp_path, capacity, prioritized):
    replay, path = small_replay(prioritized=prioritized), tmp_path / "replay"  # tags 16 to 55
    if prioritized:
        replay.update_priorities(replay.sample(20).keys, np.linspace(0, 9, 20))
    replay.save(path)
    loaded = Replay.load(path, capacity=capacity, shared=True)
    count = min(40, capacity)
    assert (loaded.capacity, len(loaded), loaded.num_inserted) == (capacity, count, 56)
    check_consistent(loaded)
    sample = loaded.sample(count, mode="iid", num_batches=50)
    TAGGED.check(sample)
    assert set(sample.data["tag"].ravel().tolist()) <= set(range(56 - count, 56))
    if prioritized:
        expected = replay.priorities(replay.all_keys())[-count:]
        assert loaded.priorities(loaded.all_keys()).tolist() == expected.tolist()
        assert loaded._table.stats()["max_priority"] == replay._table.stats()["max_priority"]
    write_rows(loaded, 8, first_tag=1000, num_bytes=16)  # over the oldest
    assert len(loaded) == min(capacity, count + 8)
    assert loaded.save(path, incremental=True) == path.stat().st_size or capacity == 40


def test_a_capacity_that_memory_does_not_allow_is_refused_before_anything_is_read(tmp_path, good_file):
    path = tmp_path / "replay"
    path.write_bytes(good_file[:-1] + b"\0")  # damaged, which is not reached
    with pytest.raises(SegmentError, match=r"capacity 4294967295 needs [\d,.]+ GiB, but"):
        Replay.load(path, capacity=2**32 - 1)
    with pytest.raises(InvalidInput, match="capacity: expected an integer in 1"):
        Replay.load(path, capacity=0)


def test_a_live_replay_is_saved_with_whole_rows(tmp_path):
    tagged = TaggedRows(200)
    replay = Replay(5000, tagged.spec, shared=True)
    write_rows(replay, 5000, num_bytes=200)
    with others_at_work(replay, num_bytes=200):
        for number in range(10):
            replay.save(tmp_path / f"{number}")
    for number in range(10):
        loaded = Replay.load(tmp_path / f"{number}")
        assert 5000 - 256 <= len(loaded) <= 5000  # rows being written are left out
        check_consistent(loaded)
        for _ in range(5):
            tagged.check(loaded.sample(1024, mode="iid"))


def test_files_hold_no_pickle(good_file):
    assert b"pickle" not in good_file
    sources = [path.read_text() for path in (ROOT / "src/drivetrain/replay/files").glob("*.py")]
    assert len(sources) > 3
    assert not any("import pickle" in source or "allow_pickle=True" in source for source in sources)


def test_a_file_is_loaded_in_a_process_that_knows_nothing_of_it(tmp_path, good_file):
    path = tmp_path / "replay"
    path.write_bytes(good_file)
    text = (
        "import sys; from drivetrain.replay import Replay; r = Replay.load(sys.argv[1]); print(len(r), r.num_inserted)"
    )
    assert run_script(text, path).split() == ["40", "56"]
