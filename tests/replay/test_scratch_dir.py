"""Rows on a disk: the same replay, in a file that nobody finds and that goes with its last process."""

import multiprocessing
import os
import signal

import numpy as np
import pytest
from children import attach_and_write, run_script, started_script
from filled import filled_replay

from drivetrain.core.errors import InvalidInput, SegmentError
from drivetrain.replay import Replay, memory_report
from drivetrain.replay.testing import TaggedRows, TaggedStacks, check_consistent

TAGGED = TaggedRows()


def write(replay, tagged, num_steps, *, first=0, num_envs=2):
    """Steps `first`, `first + 1`, ... of some environments."""
    writer, streams = replay.writer(num_envs), np.arange(num_envs, dtype=np.uint64) << np.uint64(32)
    for step in range(first, first + num_steps):
        writer.add(**tagged.step(streams + np.uint64(step)))


def rows_of(replay):
    """All rows, as arrays by their names."""
    return replay._schema.flatten(replay.read(replay.all_keys()).data)


def file_of(replay):
    """Where its memory lies, as the kernel calls it."""
    return os.readlink(f"/proc/self/fd/{replay.handle().segment.fd}")


@pytest.mark.parametrize(("tagged", "stack"), [(TaggedRows(), {}), (TaggedStacks(stack=3), {"frame_stack": 3})])
def test_a_replay_on_a_disk_draws_and_keeps_what_one_in_memory_does(tmp_path, tagged, stack):
    with (
        Replay(300, tagged.spec, seed=3, **stack) as in_memory,
        Replay(300, tagged.spec, seed=3, scratch_dir=tmp_path, **stack) as on_disk,
    ):
        for replay in (in_memory, on_disk):
            write(replay, tagged, 100, num_envs=4)
        for _ in range(3):
            left, right = in_memory.sample(32), on_disk.sample(32)
            np.testing.assert_array_equal(left.keys, right.keys)
            for replay, sample in ((in_memory, left), (on_disk, right)):
                tagged.check(sample)
                replay.update_priorities(sample.keys, np.arange(32.0))
        check_consistent(on_disk)
        assert on_disk.nbytes == memory_report(300, tagged.spec, scratch_dir=tmp_path, **stack).nbytes
        assert file_of(on_disk).startswith(str(tmp_path))
        assert "memfd" in os.readlink("/proc/self/fd/" + str(Replay(8, tagged.spec, shared=True).handle().segment.fd))
    assert os.listdir(tmp_path) == []


def test_nothing_of_it_is_in_the_folder_and_its_room_is_given_back(tmp_path):
    replay = filled_replay(2**12, scratch_dir=str(tmp_path))
    assert os.listdir(tmp_path) == []
    fd = replay.handle().segment.fd
    status = os.stat(f"/proc/self/fd/{fd}")
    assert status.st_nlink == 0, "it has no name"
    assert status.st_blocks * 512 >= replay.nbytes, "all of its room is taken at once"
    replay.close()
    with pytest.raises(OSError, match="No such file"):
        os.stat(f"/proc/self/fd/{fd}")


@pytest.mark.whole
def test_other_processes_write_into_it_and_it_outlives_none(tmp_path):
    with Replay(256, TAGGED.spec, scratch_dir=tmp_path) as replay:
        child = multiprocessing.get_context("spawn").Process(target=attach_and_write, args=(replay.handle(), 64, 100))
        child.start()
        child.join()
        assert child.exitcode == 0
        sample = replay.sample(64)
        TAGGED.check(sample)
        assert set(sample.data["tag"]) <= set(range(100, 164))
    text = (
        f"from drivetrain.replay import Replay; r = Replay(64, {{'x': ((), 'uint8')}}, scratch_dir={str(tmp_path)!r})"
    )
    with started_script(f"{text}; print('made', flush=True); import time; time.sleep(1000)") as process:
        assert process.stdout.readline() == b"made\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert os.listdir(tmp_path) == []


def test_what_was_saved_is_loaded_onto_a_disk(tmp_path):
    (tmp_path / "scratch").mkdir()
    with Replay(64, TAGGED.spec) as replay:
        write(replay, TAGGED, 30)
        replay.save(tmp_path / "file")
        with Replay.load(tmp_path / "file", scratch_dir=tmp_path / "scratch") as loaded:
            assert file_of(loaded).startswith(str(tmp_path / "scratch"))
            for name, rows in rows_of(replay).items():
                np.testing.assert_array_equal(rows_of(loaded)[name], rows)


@pytest.mark.parametrize(
    ("scratch_dir", "message"),
    [
        ("absent", "scratch_dir: expected a folder, got '.*absent'; make it first"),
        ("file", "scratch_dir: expected a folder, got '.*file'; make it first"),
        (3, "scratch_dir: expected the path of a folder, got 3"),
        ("", "scratch_dir: expected the path of a folder, got ''"),
    ],
)
def test_what_is_no_folder_is_refused(tmp_path, scratch_dir, message):
    (tmp_path / "file").write_text("")
    given = tmp_path / scratch_dir if scratch_dir and isinstance(scratch_dir, str) else scratch_dir
    for make in (lambda: Replay(8, TAGGED.spec, scratch_dir=given), lambda: Replay.load("none", scratch_dir=given)):
        with pytest.raises(InvalidInput, match=message):
            make()


def test_more_than_the_disk_has_room_for_is_refused_and_takes_none(tmp_path):
    needs = (
        r"a replay of capacity 2147483648 needs .* PiB, but .* of the disk of .* are free; "
        r"choose another folder, or use a smaller capacity .*, or store each observation once .*largest parts are obs 7"
    )
    with pytest.raises(SegmentError, match=needs):
        Replay(2**31, {"obs": ((1000, 1000), "float32")}, scratch_dir=tmp_path)
    with Replay(8, {"obs": ((100_000, 100), "float32")}) as small:
        small.save(tmp_path / "saved")
    with pytest.raises(SegmentError, match="saved: a replay of capacity 4294967295 needs"):
        Replay.load(tmp_path / "saved", capacity=2**32 - 1, scratch_dir=tmp_path)
    os.remove(tmp_path / "saved")
    limited = f"""
import resource
from drivetrain.core.errors import SegmentError
from drivetrain.replay import Replay
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
try:
    Replay(2**16, {{"obs": ((4,), "float32")}}, scratch_dir={str(tmp_path)!r})
except SegmentError as error:
    print(error)
"""
    assert "cannot create a replay segment of 3.79 MiB" in run_script(limited)
    assert os.listdir(tmp_path) == []
