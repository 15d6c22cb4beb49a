"""Checkpoints: whole or refused, replaced in one step, and never a pickle."""

import multiprocessing
import os
import pickle
import signal
import time

import numpy as np
import pytest

from drivetrain.core.errors import FileFormatError
from drivetrain.train.checkpoint import load_checkpoint, load_policy, save_checkpoint, save_policy

ARRAYS = {"params": np.arange(5, dtype=np.float32), "optimizer/0": np.float64(2.5) * np.ones((2, 3))}
META = {"num_steps": 10, "num_updates": 4}


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, META)
    arrays, meta = load_checkpoint(tmp_path)
    assert arrays.keys() == ARRAYS.keys()
    assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
    assert {name: meta[name] for name in META} == META


def test_the_last_policy_is_read_from_the_checkpoint_and_the_best_from_its_own_file(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, META)
    save_policy(tmp_path, np.ones(5, np.float32), 12.5, 8, 3)
    best, last = load_policy(tmp_path, "best"), load_policy(tmp_path, "last")
    assert (best.mean_return, best.num_steps, best.num_updates) == (12.5, 8, 3)
    assert np.array_equal(best.vector, np.ones(5))
    assert np.array_equal(last.vector, ARRAYS["params"])


def test_an_absent_checkpoint_is_a_clear_error(tmp_path):
    with pytest.raises(FileFormatError, match="there is no checkpoint here"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 0.99])
def test_a_truncated_checkpoint_is_refused(tmp_path, share):
    save_checkpoint(tmp_path, ARRAYS, META)
    path = tmp_path / "checkpoint" / "state.npz"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(FileFormatError, match="truncated, or no checkpoint"):
        load_checkpoint(tmp_path)


def test_damaged_bytes_are_refused(tmp_path):
    save_checkpoint(tmp_path, {"params": np.zeros(1_000, np.float32)}, META)
    path = tmp_path / "checkpoint" / "state.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(FileFormatError):
        load_checkpoint(tmp_path)


def test_foreign_files_are_refused_and_a_pickle_is_never_run(tmp_path):
    folder = tmp_path / "checkpoint"
    folder.mkdir()

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    objects = np.empty(1, object)
    objects[0] = Trap()
    with (folder / "state.npz").open("wb") as file:
        np.savez(file, params=objects, **{"meta.json": np.frombuffer(b"{}", np.uint8)})
    with pytest.raises(FileFormatError):
        load_checkpoint(tmp_path)
    for content in (pickle.dumps(Trap()), b"hello", b"PK\x03\x04 nothing"):
        (folder / "state.npz").write_bytes(content)
        with pytest.raises(FileFormatError):
            load_checkpoint(tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_a_newer_format_and_another_kind_are_named(tmp_path):
    save_checkpoint(tmp_path, ARRAYS, {**META, "format": 99})
    with pytest.raises(FileFormatError, match="format 99 is newer"):
        load_checkpoint(tmp_path)
    save_policy(tmp_path, np.ones(5, np.float32), 1.0, 1, 1)
    os.replace(tmp_path / "best" / "policy.npz", tmp_path / "checkpoint" / "state.npz")
    with pytest.raises(FileFormatError, match="expected a checkpoint, got a 'policy'"):
        load_checkpoint(tmp_path)


def save_forever(run_dir):
    for number in range(10**9):
        save_checkpoint(run_dir, {"params": np.full(50_000, number, np.float32)}, {**META, "num_updates": number})


def test_a_writer_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    for delay_s in (0.0, 0.003, 0.011, 0.02):
        writer = multiprocessing.get_context("spawn").Process(target=save_forever, args=(tmp_path,))
        writer.start()
        while not (tmp_path / "checkpoint" / "state.npz").exists():
            time.sleep(0.01)
        time.sleep(delay_s)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        arrays, meta = load_checkpoint(tmp_path)
        assert (arrays["params"] == meta["num_updates"]).all()
