"""Rows by their keys: as they were sampled, whole, and told where they are gone."""

import threading

import numpy as np
import pytest
from filled import filled_replay, first_keys

from drivetrain.core.errors import Closed, InvalidInput, SegmentError
from drivetrain.replay import Replay, Sequences
from drivetrain.replay.testing import TaggedRows, TaggedStacks

KINDS = [
    {},
    {"prioritized": False},
    {"num_step": 3, "share_next_obs": True},
    {"frame_stack": 4, "num_step": 2},
    {"frame_stack": 4, "sequence": Sequences(length=3, burn_in=1, period=2, initial=("tag",))},
]


def filled(kind, steps=60, capacity=40):
    tagged = TaggedStacks(24, stack=4, episode=7)
    replay = Replay(capacity, tagged.spec, shared=True, **kind)
    writer, streams = replay.writer(2), np.arange(2, dtype=np.uint64) << np.uint64(32)
    for t in range(steps):
        writer.add(**tagged.step(streams + np.uint64(t)))
    return replay


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("num_batches", [None, 3])
def test_a_row_is_read_as_it_is_sampled(kind, num_batches):
    replay = filled(kind)
    sample = replay.sample(9, num_batches=num_batches, mode="iid")
    read = Replay.attach(replay.handle()).read(sample.keys)
    assert read.data.keys() == sample.data.keys()
    for name, array in sample.data.items():
        assert read.data[name].dtype == array.dtype
        np.testing.assert_array_equal(read.data[name], array)
    np.testing.assert_array_equal(read.keys, sample.keys)
    np.testing.assert_array_equal(read.weights, np.ones(sample.keys.shape))


def test_all_rows_are_read_oldest_first_and_their_priorities_can_be_worked_out_anew():
    replay = filled({}, steps=30)
    rows = replay.read(replay.all_keys())
    step = (rows.data["tag"] % np.uint64(2**32)).astype(int)
    assert step.tolist() == [t for t in range(10, 30) for _ in range(2)]
    assert replay.update_priorities(rows.keys, rows.data["reward"]) == 0
    np.testing.assert_allclose(replay.priorities(rows.keys), rows.data["reward"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_row_that_is_gone_is_zero_and_so_is_its_weight(kind):
    replay = filled(kind)
    old = replay.all_keys()
    tagged = TaggedStacks(24, stack=4, episode=7)
    writer = replay.writer(2)
    for t in range(14):
        writer.add(**tagged.step(np.array([5, 6], np.uint64) * np.uint64(2**32) + np.uint64(t)))
    rows = replay.read(old)
    is_there = np.isin(old, replay.all_keys())
    assert 0 < is_there.sum() < len(old)
    np.testing.assert_array_equal(rows.weights, is_there)
    for name, array in rows.data.items():
        assert not array[~is_there].any(), name
    assert rows.data["reward"][is_there].any()


def test_tuples_and_keys_of_dicts_come_out_as_they_were_declared():
    replay = Replay(4, {"obs": {"a/b": [((), "int8"), ((2,), "bool")]}})
    obs = {"a/b": (np.ones(1, np.int8), np.ones((1, 2), bool))}
    no = np.zeros(1, bool)
    replay.writer().add(obs=obs, next_obs=obs, reward=no, terminated=no, truncated=no)
    first, second = replay.read(replay.all_keys()).data["obs"]["a/b"]
    assert (first.tolist(), second.tolist()) == ([1], [[True, True]])


def test_no_keys_are_no_rows_and_misfits_are_refused():
    replay = Replay(8, {"x": ((3,), "uint8")})
    assert replay.read(replay.all_keys()).data["x"].shape == (0, 3)
    for keys, message in [
        (first_keys(8)[0], "one or two axes"),
        (first_keys(8).reshape(2, 2, 2), "one or two axes"),
        (first_keys(8).astype(np.int64), "expected uint64"),
        (first_keys(9), "no key of this replay"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            replay.read(keys)
    assert replay.read(first_keys(8)).weights.tolist() == [0] * 8  # slots that were never written
    strided = filled_replay(8)
    np.testing.assert_array_equal(strided.read(strided.all_keys()[::2]).keys, strided.all_keys()[::2])
    strided.close()
    with pytest.raises(Closed):
        strided.read(first_keys(8))


def test_more_rows_than_memory_holds_are_refused_with_what_they_would_need(monkeypatch):
    monkeypatch.setattr("drivetrain.core.segments.available_memory", lambda: 2**28)
    with Replay(4, {"x": ((2**20,), "uint8")}) as replay:
        no, yes = np.zeros(4, bool), np.ones(4, bool)
        replay.writer(4).add(x=np.ones((4, 2**20), np.uint8), reward=np.zeros(4), terminated=no, truncated=yes)
        keys = np.resize(replay.all_keys(), 300)
        with pytest.raises(
            SegmentError, match=r"reading 300 rows needs 300\.\d\d MiB, but .*; read some keys at a time"
        ):
            replay.read(keys)
        assert replay.read(keys[:4]).data["x"].all()


def test_rows_that_are_read_while_others_write_are_whole():
    tagged, stop = TaggedRows(1024), threading.Event()
    with Replay(512, tagged.spec) as replay:
        writer = replay.writer(8)
        writer.add(**tagged.step(np.arange(8)))

        def write():
            tags = np.arange(8, 16)
            while not stop.is_set():
                writer.add(**tagged.step(tags))
                tags = tags + 8

        thread = threading.Thread(target=write)
        thread.start()
        try:
            num_rounds = num_read = 0
            while num_rounds < 20 or not num_read:
                num_rounds += 1
                rows = replay.read(replay.all_keys())
                is_there = rows.weights == 1
                tagged.check(rows.map(lambda array, is_there=is_there: array[is_there]))
                num_read += is_there.sum()
        finally:
            stop.set()
            thread.join()
