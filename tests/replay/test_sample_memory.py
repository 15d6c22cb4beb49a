"""Samples share recycled memory, and nobody notices: what is held in any way is never written again."""

import gc
import itertools
import resource
import threading
import weakref

import numpy as np
import pytest
from filled import filled_replay

from drivetrain.replay import Replay
from drivetrain.replay.testing import TaggedRows

SMALL, LARGE = 16, 2**15  # the objects of small samples are used again, of large ones the memory only
NESTED = {"obs": {"left": ((4,), "float32"), "right": ((3,), "uint8")}, "action": ((), "int64")}


def numbered(capacity=2**15):
    """A replay whose row i holds i + 1 in each field, so that other rows are other bytes."""
    replay = Replay(capacity, NESTED, seed=5)
    number, no = np.arange(capacity) + 1, np.zeros(capacity, bool)
    obs = {
        "left": np.repeat(number[:, None], 4, axis=1).astype(np.float32),
        "right": np.repeat(number[:, None], 3, axis=1).astype(np.uint8),
    }
    replay.writer(capacity).add(
        obs=obs, next_obs=obs, action=number, reward=number.astype(np.float32), terminated=no, truncated=no
    )
    return replay


def arrays_of(sample):
    data = sample.data
    groups = [data["obs"], data["next_obs"], {k: v for k, v in data.items() if not k.endswith("obs")}]
    return [array for group in groups for array in group.values()] + [sample.weights, sample.keys]


def addresses(sample):
    return tuple(array.ctypes.data for array in arrays_of(sample))


HOLDERS = {
    "the sample": lambda sample: sample,
    "its dict": lambda sample: sample.data,
    "an inner dict": lambda sample: sample.data["next_obs"],
    "the values of a dict": lambda sample: sample.data["obs"].values(),
    "an iterator": lambda sample: iter(sample),
    "a field": lambda sample: sample.data["action"],
    "a nested field": lambda sample: sample.data["obs"]["left"],
    "weights": lambda sample: sample.weights,
    "keys": lambda sample: sample.keys,
    "a slice": lambda sample: sample.data["obs"]["left"][3:5],
    "a slice of a view": lambda sample: sample.data["obs"]["left"].view(np.uint8)[3:5, ::2],
    "a reshaped array": lambda sample: sample.data["obs"]["left"].reshape(-1).T,
    "a memoryview": lambda sample: memoryview(sample.data["action"])[1:],
    "an array over a memoryview": lambda sample: np.frombuffer(memoryview(sample.keys), np.uint64),
    "DLPack": lambda sample: np.from_dlpack(sample.data["obs"]["left"]),
    "a DLPack capsule": lambda sample: sample.data["obs"]["left"].__dlpack__(),
    "a flat iterator": lambda sample: sample.data["action"].flat,
    "ctypes": lambda sample: sample.data["action"].ctypes,
    "a sample with other weights": lambda sample: sample._replace(weights=None),
    "a frame": lambda sample: (array for array in [sample.data["reward"]]),
}


@pytest.mark.parametrize("batch_size", [SMALL, LARGE])
@pytest.mark.parametrize("how", HOLDERS)
def test_what_is_held_in_any_way_is_never_written_again(how, batch_size):
    replay, held = numbered(), []
    for _ in range(6):
        sample = replay.sample(batch_size)
        spans = [(array.ctypes.data, array.nbytes) for array in arrays_of(sample)]
        held.append((HOLDERS[how](sample), spans))
        for _, others in held[:-1]:
            assert all(a + n <= b or b + m <= a for a, n in spans for b, m in others)


@pytest.mark.parametrize("batch_size", [SMALL, LARGE])
def test_a_sample_that_nobody_holds_gives_its_memory_to_a_later_one(batch_size):
    replay = numbered()
    seen = [addresses(replay.sample(batch_size)) for _ in range(20)]
    assert len(set(seen)) == 1
    sample = replay.sample(batch_size)
    seen = []
    for _ in range(20):  # the usual loop: the last one is held while the next is drawn
        sample = replay.sample(batch_size)
        seen.append(addresses(sample))
    assert len(set(seen)) == 2


def test_used_again_or_not_samples_are_the_same():
    recycling, holding, held = numbered(), numbered(), []
    for num_batches, mode, _ in itertools.product((None, 1, 3), ("iid", "stratified"), range(4)):
        sample = recycling.sample(SMALL, num_batches=num_batches, mode=mode)
        held.append(holding.sample(SMALL, num_batches=num_batches, mode=mode))
        for array, other in zip(arrays_of(sample), arrays_of(held[-1]), strict=True):
            np.testing.assert_array_equal(array, other)
            assert array.flags.carray
            assert array.flags.writeable
            assert (array.dtype, array.strides) == (other.dtype, other.strides)
        assert list(sample.data) == list(held[-1].data)


@pytest.mark.parametrize("shape", [(1, None), (7, None), (SMALL, 3), (LARGE, None)])
def test_every_array_begins_at_a_multiple_of_64_bytes(shape):
    replay = numbered()
    for _ in range(3):
        sample = replay.sample(shape[0], num_batches=shape[1])
        assert all(address % 64 == 0 for address in addresses(sample))


def overwrite(sample):
    for array in arrays_of(sample):
        array[:] = 0


def replace_by_view(sample):
    sample.data["reward"] = sample.data["reward"][:]


CHANGES = {
    "values": overwrite,
    "a field more": lambda sample: sample.data.update(td_error=np.zeros(SMALL)),
    "a field less": lambda sample: sample.data.pop("reward"),
    "a nested field less": lambda sample: sample.data["obs"].pop("right"),
    "a nested field more": lambda sample: sample.data["obs"].update(up=np.zeros(SMALL)),
    "no fields": lambda sample: sample.data.clear(),
    "another order": lambda sample: sample.data.update(action=sample.data.pop("action")),
    "another name": lambda sample: sample.data.update(r=sample.data.pop("reward")),
    "another array": lambda sample: sample.data.update(reward=np.zeros(SMALL, np.float32)),
    "no array": lambda sample: sample.data.update(reward=None),
    "a view for its array": replace_by_view,
    "read-only": lambda sample: sample.weights.setflags(write=False),
    "another group": lambda sample: sample.data.update(obs=dict(sample.data["obs"])),
    "a dict for an array": lambda sample: sample.data.update(reward={"reward": sample.data["reward"]}),
    "an array for a group": lambda sample: sample.data.update(obs=sample.data["obs"]["left"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_done_to_a_sample_the_next_is_whole(change):
    replay, twin = numbered(), numbered()
    for _ in range(8):
        CHANGES[change](replay.sample(SMALL))
        twin.sample(SMALL)
    sample, expected = replay.sample(SMALL), twin.sample(SMALL)
    assert list(sample.data) == list(expected.data)
    assert list(sample.data["obs"]) == list(expected.data["obs"])
    for array, other in zip(arrays_of(sample), arrays_of(expected), strict=True):
        np.testing.assert_array_equal(array, other)
        assert array.flags.writeable


def test_an_array_replaced_by_its_own_view_is_still_the_callers():
    replay = numbered()
    sample = replay.sample(SMALL)
    kept = sample.data["reward"]
    replace_by_view(sample)
    before = kept.copy()
    del sample
    for _ in range(8):
        replay.sample(SMALL)
    np.testing.assert_array_equal(kept, before)


@pytest.mark.parametrize("batch_size", [SMALL, LARGE])
def test_a_sample_outlives_its_replay_and_its_memory_is_freed(batch_size):
    replay = numbered()
    sample, dropped = replay.sample(batch_size), replay.sample(batch_size)
    before = [array.copy() for array in arrays_of(sample)]
    del dropped
    table = replay._table
    replay.close()
    assert table.idle_nbytes() == 0
    del replay
    gc.collect()
    for array, copy in zip(arrays_of(sample), before, strict=True):
        np.testing.assert_array_equal(array, copy)
    del sample, array
    assert table.idle_nbytes() == 0


def test_memory_that_waits_is_bounded_and_of_the_latest_sizes():
    replay = filled_replay(2**15)
    most = max(2**28, replay.nbytes // 8)
    held = [replay.sample(LARGE) for _ in range(60)]  # a megabyte each
    assert replay._table.idle_nbytes() == 0
    del held
    assert 0 < replay._table.idle_nbytes() <= most
    for num_batches in range(1, 60):
        replay.sample(2**12, num_batches=num_batches)
        assert replay._table.idle_nbytes() <= most
    first = replay.sample(2**12, num_batches=59)
    address = first.keys.ctypes.data
    del first
    assert replay.sample(2**12, num_batches=59).keys.ctypes.data == address


def test_memory_of_a_size_that_is_not_asked_for_any_more_is_given_back():
    replay = filled_replay(2**15)
    replay.sample(2**12, num_batches=200)
    waiting = replay._table.idle_nbytes()
    for _ in range(2 * 64):
        replay.sample(SMALL)
        large = replay.sample(LARGE, num_batches=2)  # asked for all the time
    del large
    assert 0 < replay._table.idle_nbytes() < waiting


def resident_nbytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_memory_does_not_grow_with_the_number_of_samples():
    replay = numbered()

    def sample_many(times):
        for _ in range(times):
            held = [replay.sample(size, num_batches=num) for size, num in ((SMALL, None), (1000, 4), (LARGE, None))]
        del held
        return resident_nbytes()

    warm = sample_many(20)
    assert sample_many(200) - warm < 2**24  # 200 large ones alone would take 2^28


def test_a_weak_reference_to_an_array_dies_with_it():
    replay = numbered()
    watched = weakref.ref(replay.sample(SMALL).weights)
    for _ in range(4):
        replay.sample(SMALL)
    assert watched() is None


def test_a_cycle_through_a_sample_and_its_replay_is_collected():
    replay = numbered()
    sample = replay.sample(SMALL)
    sample.data["replay"] = replay
    gone = weakref.ref(replay)
    del sample, replay
    gc.collect()
    assert gone() is None


def test_threads_that_hold_samples_do_not_meet_each_others():
    tagged, errors = TaggedRows(200), []
    replay = Replay(4096, tagged.spec)
    replay.writer(4096).add(**tagged.step(np.arange(4096)))

    def work():
        held = []
        try:
            for _ in range(300):
                held.append(replay.sample(64))
                for sample in held[-3:]:
                    tagged.check(sample)
                held = held[-2:]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_what_a_large_sample_was_drawn_with_is_given_back():
    replay = Replay(1000, {"action": ((), "uint8")})
    no = np.zeros(1000, bool)
    replay.writer(1000).add(action=np.zeros(1000, np.uint8), reward=np.zeros(1000), terminated=no, truncated=no)
    replay.sample(8)
    before = resident_nbytes()
    replay.sample(1000, num_batches=10_000)
    for _ in range(300):
        replay.sample(8)
    assert resident_nbytes() - before < 50e6, "16 bytes for each of 10 million draws were 160 MB"
