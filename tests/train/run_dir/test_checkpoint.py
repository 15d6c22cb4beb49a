"""Checkpoints: whole or refused, replaced in one step, and never a pickle."""

import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from drivetrain.core.aside import save_text
from drivetrain.core.errors import FileFormatError
from drivetrain.replay import Replay
from drivetrain.train.run_dir.checkpoint import (
    checkpoint_nbytes,
    has_checkpoint,
    load_checkpoint,
    load_replay,
    load_saved_policy,
    save_checkpoint,
    save_policy,
)

ARRAYS = {"params": np.arange(5, dtype=np.float32), "optimizer/0": np.float64(2.5) * np.ones((2, 3))}
META = {"num_steps": 10, "num_updates": 4}


def make_replay(capacity=64):
    return Replay(capacity, spec={"x": ((), "int64")}, prioritized=True, seed=0)


def add(replay, first, count):
    writer = replay.writer(num_envs=count)
    ends = np.ones(count, bool)
    writer.add(x=np.arange(first, first + count), reward=np.zeros(count, np.float32), terminated=ends, truncated=~ends)


def content(replay):
    sample = replay.sample(len(replay), beta=0.5)
    return sorted(sample.data["x"].tolist()), len(replay)


def names_in(run_dir):
    return sorted(os.listdir(run_dir / "checkpoint"))


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, META)
    arrays, meta = load_checkpoint(tmp_path)
    assert arrays.keys() == ARRAYS.keys()
    assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
    assert {name: meta[name] for name in META} == META
    assert load_replay(tmp_path, shared=False) is None


def test_only_the_files_of_the_latest_generation_are_there(tmp_path):
    for number in (1, 2, 3):
        save_checkpoint(tmp_path, ARRAYS, {**META, "num_updates": number})
        (tmp_path / "checkpoint" / "state-99.npz").write_bytes(b"of somebody who was killed")
    save_checkpoint(tmp_path, ARRAYS, META)
    assert names_in(tmp_path) == ["manifest.json", "state-4.npz"]


def test_what_somebody_keeps_beside_a_checkpoint_stays(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, META)
    for name in ("notes.txt", "state-1.npz.bak", "manifest.json.old"):
        (tmp_path / "checkpoint" / name).write_text("mine")
    save_checkpoint(tmp_path, ARRAYS, META)
    assert names_in(tmp_path) == ["manifest.json", "manifest.json.old", "notes.txt", "state-1.npz.bak", "state-2.npz"]


def test_the_replay_is_saved_and_only_what_is_new_is_written(tmp_path):
    replay = make_replay(4096)
    add(replay, 0, 2000)
    sizes = [save_checkpoint(tmp_path, ARRAYS, META, replay=replay)]
    inode = os.stat(tmp_path / "checkpoint" / "replay-1").st_ino
    add(replay, 2000, 10)
    sizes.append(save_checkpoint(tmp_path, ARRAYS, META, replay=replay))
    assert names_in(tmp_path) == ["manifest.json", "replay-2", "state-2.npz"]
    assert os.stat(tmp_path / "checkpoint" / "replay-2").st_ino == inode, "the file was written anew"
    assert 0 < sizes[1][1] - sizes[0][1] < 2_000
    assert checkpoint_nbytes(tmp_path) == sizes[1]
    with load_replay(tmp_path, shared=False) as loaded:
        assert content(loaded) == content(replay) == (list(range(2010)), 2010)


def test_a_replay_that_somebody_has_taken_away_has_no_size(tmp_path):
    replay = make_replay()
    add(replay, 0, 20)
    save_checkpoint(tmp_path, ARRAYS, META, replay=replay)
    (tmp_path / "checkpoint" / "replay-1").unlink()
    assert checkpoint_nbytes(tmp_path) == ((tmp_path / "checkpoint" / "state-1.npz").stat().st_size, 0)


def test_without_hard_links_the_replay_is_written_whole(tmp_path, monkeypatch):
    def no_links(*_):
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    replay = make_replay()
    for first in (0, 20, 40):
        add(replay, first, 20)
        save_checkpoint(tmp_path, ARRAYS, META, replay=replay)
        with load_replay(tmp_path, shared=False) as loaded:
            assert content(loaded) == content(replay)


def test_a_failed_save_leaves_the_checkpoint_before_and_the_next_one_succeeds(tmp_path, monkeypatch):
    replay = make_replay()
    add(replay, 0, 20)
    save_checkpoint(tmp_path, ARRAYS, META, replay=replay)

    def full(path, text):
        raise OSError(28, "No space left on device")

    for first in (20, 40):  # each time the replay's file has been added to before it fails
        add(replay, first, 10)
        with monkeypatch.context() as patched:
            patched.setattr("drivetrain.train.run_dir.checkpoint.save_text", full)
            with pytest.raises(OSError, match="No space left"):
                save_checkpoint(tmp_path, ARRAYS, META, replay=replay)
        assert names_in(tmp_path) == ["manifest.json", "replay-1", "state-1.npz"]
        with load_replay(tmp_path, shared=False) as loaded:
            assert content(loaded) == (list(range(20)), 20)
    save_checkpoint(tmp_path, ARRAYS, META, replay=replay)
    with load_replay(tmp_path, shared=False) as loaded:
        assert content(loaded) == content(replay)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(24, "Too many open files")])
def test_an_interrupt_when_the_new_manifest_is_there_leaves_the_new_checkpoint(tmp_path, monkeypatch, error):
    replay = make_replay()
    add(replay, 0, 20)
    save_checkpoint(tmp_path, ARRAYS, META, replay=replay)
    add(replay, 20, 10)

    def late(path, text):
        save_text(path, text)
        raise error

    monkeypatch.setattr("drivetrain.train.run_dir.checkpoint.save_text", late)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else OSError):
        save_checkpoint(tmp_path, {"params": np.ones(5)}, {**META, "num_updates": 5}, replay=replay)
    assert names_in(tmp_path) == ["manifest.json", "replay-2", "state-2.npz"]
    arrays, meta = load_checkpoint(tmp_path)
    assert (arrays["params"].sum(), meta["num_updates"]) == (5, 5)
    with load_replay(tmp_path, shared=False) as loaded:
        assert content(loaded) == content(replay)


# Makes five saves in a process that is killed just before call N of the system, for N = 0, 1, ...
KILLED_SAVES = """
import os, sys
from pathlib import Path
import numpy as np
from drivetrain.train.run_dir import checkpoint
sys.path.insert(0, sys.argv[2])
from test_checkpoint import add, make_replay

def count_down(name, left):
    real = getattr(os, name)
    def call(*arguments, **keywords):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), 9)
        return real(*arguments, **keywords)
    setattr(os, name, call)

def save_five_times(run_dir, num_calls):
    left, replay = [num_calls], make_replay(64)
    for number in range(1, 6):
        add(replay, 10 * number, 10)
        if number == 3:
            for name in ("link", "unlink", "replace", "fsync", "pwrite", "scandir"):
                count_down(name, left)
        if number == 4:  # the replay's file has to be written anew; else it is added to
            add(replay, 1000, 60)
        arrays, meta = {"params": np.full(9, number)}, {"num_steps": number, "num_updates": number}
        checkpoint.save_checkpoint(run_dir, arrays, meta, replay=replay)

for num_calls in range(300):
    run_dir = Path(sys.argv[1]) / str(num_calls)
    run_dir.mkdir()
    pid = os.fork()
    if pid == 0:
        save_five_times(run_dir, num_calls)
        os._exit(0)
    if os.waitpid(pid, 0)[1] == 0:
        break
"""


@pytest.mark.release
def test_a_save_killed_before_any_of_its_calls_leaves_the_old_checkpoint_or_the_new_one(tmp_path):
    rows = {2: [*range(10, 30)], 3: [*range(10, 40)], 4: [*range(46, 50), *range(1000, 1060)]}
    rows[5] = [*range(50, 60), *range(1006, 1060)]
    command = [sys.executable, "-c", KILLED_SAVES, str(tmp_path), str(Path(__file__).parent)]
    subprocess.run(command, check=True)
    run_dirs, seen = list(tmp_path.iterdir()), set()
    for run_dir in run_dirs:
        arrays, meta = load_checkpoint(run_dir)
        assert (arrays["params"] == meta["num_updates"]).all()
        with load_replay(run_dir, shared=False) as replay:
            assert content(replay)[0] == rows[meta["num_steps"]]
        seen.add(meta["num_steps"])
        save_checkpoint(run_dir, ARRAYS, META)  # clears away what was left
        assert len(names_in(run_dir)) == 2
    assert len(run_dirs) > 30
    assert seen == {2, 3, 4, 5}


def test_the_last_policy_is_read_from_the_checkpoint_and_the_best_from_its_own_file(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, META)
    save_policy(tmp_path, np.ones(5, np.float32), 12.5, 8, 3)
    best, last = load_saved_policy(tmp_path, "best"), load_saved_policy(tmp_path, "last")
    assert (best.mean_return, best.num_steps, best.num_updates) == (12.5, 8, 3)
    assert np.array_equal(best.vector, np.ones(5))
    assert np.array_equal(last.vector, ARRAYS["params"])


@pytest.mark.parametrize(
    ("folder", "which", "kind"), [("best", "best", "policy"), ("checkpoint", "last", "checkpoint")]
)
def test_a_file_in_the_place_of_a_folder_is_told_as_absent_and_not_as_damaged(tmp_path, folder, which, kind):
    (tmp_path / folder).write_text("")
    with pytest.raises(FileFormatError, match=rf"there is no {kind} here \(yet\)"):
        load_saved_policy(tmp_path, which)


def test_an_absent_checkpoint_is_a_clear_error_and_so_is_an_old_one(tmp_path):
    with pytest.raises(FileFormatError, match="there is no checkpoint here"):
        load_checkpoint(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "state.npz").write_bytes(b"PK")
    with pytest.raises(FileFormatError, match="a checkpoint of an older drivetrain"):
        load_checkpoint(tmp_path)


def test_a_manifest_that_somebody_took_away_is_missed_but_where_the_first_save_never_ended(tmp_path):
    for is_first in (True, False):
        save_checkpoint(tmp_path, ARRAYS, META)
        manifest = tmp_path / "checkpoint" / "manifest.json"
        content = manifest.read_text()
        manifest.unlink()
        assert has_checkpoint(tmp_path) != is_first
        with pytest.raises(FileFormatError, match=r"no checkpoint here" if is_first else r"manifest\.json is gone"):
            load_checkpoint(tmp_path)
        manifest.write_text(content)


@pytest.mark.parametrize("name", ["state-1.npz", "manifest.json"])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 0.99])
def test_a_truncated_checkpoint_is_refused(tmp_path, share, name):
    save_checkpoint(tmp_path, ARRAYS, META)
    path = tmp_path / "checkpoint" / name
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(FileFormatError, match=r"truncated|damaged"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("place", "bits", "told"),
    [
        (None, 0xFF, "Bad CRC"),
        (6, 0x40, "zip file version"),  # of the last file's entry in the list at the end
        (8, 0x01, "is encrypted"),
        (10, 0x01, "compression method is not supported"),
    ],
)
def test_damaged_bytes_are_refused(tmp_path, place, bits, told):
    save_checkpoint(tmp_path, {"params": np.full(1_000, np.nan, np.float32)}, META)
    path = tmp_path / "checkpoint" / "state-1.npz"
    data = bytearray(path.read_bytes())
    entry = data.rfind(b"PK\x01\x02")
    data[len(data) // 2 if place is None else entry + place] ^= bits
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=f"truncated, or no state of drivetrain: .*{told}"):
        load_checkpoint(tmp_path)


def test_foreign_files_are_refused_and_a_pickle_is_never_run(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, META)
    folder = tmp_path / "checkpoint"

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    objects = np.empty(1, object)
    objects[0] = Trap()
    with (folder / "state-1.npz").open("wb") as file:
        np.savez(file, params=objects, **{"meta.json": np.frombuffer(b"{}", np.uint8)})
    with pytest.raises(FileFormatError):
        load_checkpoint(tmp_path)
    for name in ("state-1.npz", "manifest.json"):
        for data in (pickle.dumps(Trap()), b"hello", b"[]", b"PK\x03\x04 nothing"):
            (folder / name).write_bytes(data)
            with pytest.raises(FileFormatError) as refused:
                load_checkpoint(tmp_path)
            assert "pickle" not in str(refused.value)  # nobody is told to allow one
    assert not (tmp_path / "sprung").exists()


def test_a_newer_format_and_another_kind_are_named(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, META)
    path = tmp_path / "checkpoint" / "manifest.json"
    manifest = path.read_text()
    path.write_text(json.dumps({**json.loads(manifest), "format": 99}))
    with pytest.raises(FileFormatError, match="format 99 is newer"):
        load_checkpoint(tmp_path)
    with pytest.raises(FileFormatError, match="format 99 is newer"):
        save_checkpoint(tmp_path, ARRAYS, META)  # which would remove it
    path.write_text(manifest)
    save_policy(tmp_path, np.ones(5, np.float32), 1.0, 1, 1)
    shutil.copy(tmp_path / "best" / "policy.npz", tmp_path / "checkpoint" / "state-1.npz")
    with pytest.raises(FileFormatError, match="expected a state, got a 'policy'"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"files": {"state": 3}}, "the names of its files are no text"),
        ({"files": None}, "it names no state"),
        ({"files": ["state"]}, "it names no state"),
        ({"format": "2"}, "expected a whole number as its format, got '2'"),
        ({"format": ...}, "expected a whole number as its format, got None"),
        ({"num_steps": -5}, "its counts are no whole numbers from 0"),
        ({"num_updates": True}, "its counts are no whole numbers from 0"),
        ({"generation": 1.5}, "its counts are no whole numbers from 0"),
        ({"replay_save": "x"}, "its counts are no whole numbers from 0"),
        ({"replay_save": ...}, "it has no 'replay_save'"),
    ],
)
def test_a_manifest_that_has_what_cannot_be_is_refused_by_everybody_who_reads_it(tmp_path, wrong, sentence):
    replay = make_replay()
    add(replay, 0, 8)
    save_checkpoint(tmp_path, ARRAYS, META, replay=replay)
    path = tmp_path / "checkpoint" / "manifest.json"
    changed = {**json.loads(path.read_text()), **wrong}
    path.write_text(json.dumps({name: value for name, value in changed.items() if value is not ...}))
    for read in (
        load_checkpoint,
        checkpoint_nbytes,
        lambda run_dir: load_saved_policy(run_dir, "last"),
        lambda run_dir: load_replay(run_dir, shared=False),
    ):
        with pytest.raises(FileFormatError, match=rf"manifest\.json: damaged.*{sentence}"):
            read(tmp_path)


def test_a_checkpoint_may_be_saved_with_the_counters_of_another(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, META)
    arrays, meta = load_checkpoint(tmp_path)
    save_checkpoint(tmp_path, arrays, {**meta, "num_steps": 7})
    again = load_checkpoint(tmp_path)[1]
    assert (again["num_steps"], again["generation"]) == (7, 2)
    assert again["save"] != meta["save"]


def save_forever(run_dir):
    replay = make_replay(4096)
    for number in range(10**9):
        add(replay, 16 * number, 16)
        meta = {**META, "num_updates": number, "num_steps": 16 * (number + 1)}
        save_checkpoint(run_dir, {"params": np.full(50_000, number, np.float32)}, meta, replay=replay)


def test_a_writer_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    for delay_s in (0.0, 0.003, 0.011, 0.02):
        writer = multiprocessing.get_context("spawn").Process(target=save_forever, args=(tmp_path,))
        writer.start()
        while not (tmp_path / "checkpoint" / "manifest.json").exists():
            time.sleep(0.01)
        time.sleep(delay_s)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        arrays, meta = load_checkpoint(tmp_path)
        assert (arrays["params"] == meta["num_updates"]).all()
        with load_replay(tmp_path, shared=False) as replay:
            assert len(replay) == min(4096, meta["num_steps"])
