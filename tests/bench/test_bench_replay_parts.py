"""The parts of the replay bench: layouts, timing, the NumPy replay, the tree alone, the floor."""

import itertools

import numpy as np
import pytest

from drivetrain.bench.replay.groups import all_cores_group, buffer_group, power, tree_group
from drivetrain.bench.replay.layouts import LAYOUTS, make_priorities, make_steps
from drivetrain.bench.replay.operations import make_operation, settle
from drivetrain.bench.replay.peers.floor import FloorStore
from drivetrain.bench.replay.peers.numpy_per import NumpyStore, NumpyTree
from drivetrain.bench.replay.plan import full_plan, quick_plan
from drivetrain.bench.replay.targets import targets_of
from drivetrain.bench.replay.timing import Operation, block_size, time_slice
from drivetrain.bench.serving import NotOffered
from drivetrain.replay._native import Tree, copy_rows


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_steps_are_episodes_whose_observations_follow_each_other(layout):
    steps = make_steps(layout, 3, seed=0, num_steps=6)
    assert [bool(step["truncated"].all()) for step in steps] == [False] * 5 + [True]
    for step, after in itertools.pairwise(steps):
        assert step["next_obs"].shape == (3, *layout.obs_shape)
        np.testing.assert_array_equal(step["next_obs"], after["obs"])
        if layout.frames:
            np.testing.assert_array_equal(step["obs"][:, 1:], step["next_obs"][:, :-1])
    assert all(field.flags.c_contiguous for step in steps for field in step.values())


def test_priorities_have_a_heavy_tail():
    priorities = make_priorities(rng(), 100_000)
    assert priorities.dtype == np.float32
    assert 0.05 < np.median(priorities) < 0.07
    assert priorities.max() > 1_000 * np.median(priorities)


def test_a_slice_times_calls_and_leaves_preparations_out():
    prepared, called = [], []

    def prepare(calls):
        prepared.append(calls)
        sum(range(200_000))
        return [(i,) for i in range(calls)]

    operation = Operation(prepare, called.append, most_calls=4)
    assert block_size(operation) <= 4
    called.clear()
    timing = time_slice(operation, calls=4, slice_s=0.0)
    assert timing.num_calls == 12
    assert len(called) == 12 + 4  # one block to warm up
    assert timing.smallest_us <= timing.median_us
    assert timing.median_us < 1_000


def test_a_tree_of_numpy_finds_what_a_cumulative_sum_finds():
    leaves = 5_000
    tree, oracle = NumpyTree(leaves), np.zeros(leaves)
    tree.update(np.arange(leaves), oracle + 1)
    oracle += 1
    for seed in range(20):
        indices = rng(seed).integers(0, leaves, 300)
        values = make_priorities(rng(seed), 300).astype(np.float64)
        oracle[indices] = values
        tree.update(indices, values)
        masses = rng(seed).random(1_000) * oracle.sum() * (1 - 1e-9)
        expected = np.searchsorted(np.cumsum(oracle), masses, side="right")
        found = tree.find(masses)
        off = np.abs(found - expected) > 0
        assert off.mean() < 0.01, "only rounding at a border may differ"
        assert (oracle[found] > 0).all()
    assert tree.total() == pytest.approx(oracle.sum())


def test_the_numpy_replay_samples_in_proportion_to_priority_and_brings_the_rows_it_says():
    layout = LAYOUTS["obs 4"]
    store = NumpyStore(layout, 512)
    insert = store.inserter(64)
    inserted = [insert.prepare(step) for step in make_steps(layout, 64, seed=0, num_steps=8)]
    for step in inserted:
        insert.insert(step)
    priorities = np.where(np.arange(512) % 2 == 0, 8.0, 1.0).astype(np.float32)
    store.updater(512).update((None, None, np.arange(512)), priorities)
    fields, weights, rows = store.sampler(256)()
    everything = np.concatenate([step["obs"] for step in inserted])
    np.testing.assert_array_equal(fields["obs"], everything[rows])
    share = np.mean([(store.sampler(256)()[2] % 2 == 0).mean() for _ in range(50)])
    assert share == pytest.approx(8**0.6 / (1 + 8**0.6), abs=0.02)
    assert weights.max() == 1.0
    np.testing.assert_allclose(weights[rows % 2 == 0], (8**0.6) ** -0.4, rtol=1e-5)


def test_the_oldest_rows_are_overwritten_first():
    layout = LAYOUTS["obs 4"]
    store = NumpyStore(layout, 100)
    insert = store.inserter(64)
    steps = [insert.prepare(step) for step in make_steps(layout, 64, seed=0, num_steps=2)]
    for step in steps:
        insert.insert(step)
    assert store.size == 100
    np.testing.assert_array_equal(store.fields["obs"][:28], steps[1]["obs"][36:])
    np.testing.assert_array_equal(store.fields["obs"][28:64], steps[0]["obs"][28:])


def test_settling_draws_nothing_from_who_has_no_priorities():
    class Uniform:
        asked = ()

        def updater(self, batch_size):
            self.asked = (*self.asked, ("updater", batch_size))
            raise NotOffered("uniform")

        def sampler(self, batch_size):
            self.asked = (*self.asked, ("sampler", batch_size))

    store = Uniform()
    settle(store, 4, 10)
    assert store.asked == (("updater", 4),)


@pytest.mark.parametrize("leaves", [1, 17, 3_000])
def test_the_tree_alone_gives_each_leaf_exactly_its_share_of_the_targets(leaves):
    tree, oracle = Tree(leaves), np.zeros(leaves)
    for seed in range(5):
        indices = rng(seed).integers(0, leaves, 2_500).astype(np.uint32)
        values = rng(seed).integers(0, 20, 2_500).astype(np.float32)
        oracle[indices] = values
        tree.update(indices, values)
    oracle[0] = 3
    tree.update(np.zeros(1, np.uint32), np.full(1, 3, np.float32))
    total = round(oracle.sum())
    assert tree.total_priority == total
    units = tree.total // total
    targets = np.arange(total, dtype=np.uint64) * np.uint64(units) + np.uint64(units // 2)
    found = np.empty(total, np.uint32)
    tree.find(targets, found)
    np.testing.assert_array_equal(np.bincount(found, minlength=leaves), oracle)  # in whatever order of leaves


def test_bad_input_to_the_tree_alone_changes_nothing():
    tree = Tree(10)
    one = np.ones(1, np.float32)
    tree.update(np.array([3], np.uint32), one)
    bad = [(np.array([10], np.uint32), one), (np.array([1], np.uint32), -one), (np.array([1], np.uint32), one * np.inf)]
    bad += [(np.array([1]), one), (np.array([1, 2], np.uint32), one)]
    for indices, priorities in bad:
        with pytest.raises(ValueError, match="expected"):
            tree.update(indices, priorities)
    assert tree.total_priority == 1.0
    with pytest.raises(ValueError, match="below the total"):
        tree.find(np.array([tree.total], np.uint64), np.empty(1, np.uint32))
    with pytest.raises(ValueError, match="capacity"):
        Tree(0)


@pytest.mark.parametrize("nbytes", [1, 3, 7, 12, 50, 128, 129, 300])
def test_the_floor_copies_the_rows_it_is_given(nbytes):
    rows = rng().integers(0, 256, (100, 320), np.uint8)
    indices = rng().integers(0, 100, 64).astype(np.uint32)
    out = np.zeros(64 * nbytes, np.uint8)
    copy_rows(rows.ravel(), 320, nbytes, indices, out)
    np.testing.assert_array_equal(out.reshape(64, nbytes), rows[indices, :nbytes])


@pytest.mark.parametrize("nbytes", [4_096, 5_003, 6_016])
def test_the_floor_streams_long_rows_of_large_outputs_and_may_overlap_them(nbytes):
    rows = rng().integers(0, 256, 400_000, np.uint8)
    indices = rng().integers(0, 300, 300).astype(np.uint32)
    out = np.zeros(300 * nbytes + 1, np.uint8)[1:]  # at an odd address
    copy_rows(rows, 1_000, nbytes, indices, out)
    expected = np.stack([rows[1_000 * index : 1_000 * index + nbytes] for index in indices.tolist()])
    np.testing.assert_array_equal(out.reshape(300, nbytes), expected)


def test_the_floor_refuses_rows_beyond_the_end_and_arrays_that_do_not_fit():
    rows, out = np.zeros(64, np.uint8), np.zeros(8, np.uint8)
    with pytest.raises(ValueError, match="beyond the end"):
        copy_rows(rows, 8, 8, np.array([8], np.uint32), out)
    with pytest.raises(ValueError, match="one length"):
        copy_rows(rows, 8, 4, np.array([0], np.uint32), out)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="uint8"):
        copy_rows(rows, 8, 8, np.array([0], np.uint32), out)


@pytest.mark.release
@pytest.mark.parametrize(("name", "stacks"), [("obs 4", 2), ("84x84x4 pairs", 2), ("84x84x4 shared", 5 / 4)])
def test_the_floor_moves_as_many_bytes_as_a_sample_of_ours(name, stacks):
    layout = LAYOUTS[name]
    store = FloorStore(layout, 64)
    (indices,) = store.operation("sample 32").prepare(1)[0]
    observations = stacks * np.prod(layout.obs_shape) * np.dtype(layout.obs_dtype).itemsize
    assert observations <= len(indices) * store.nbytes / 32 < observations + 64
    store.operation("sample 32").call(indices)
    with pytest.raises(NotOffered):
        store.operation("update 32")


def test_an_update_is_of_one_batch_that_was_just_drawn():
    layout = LAYOUTS["obs 4"]
    store = NumpyStore(layout, 64)
    insert = make_operation(store, layout, "insert 64")
    insert.call(*insert.prepare(1)[0])
    update = make_operation(store, layout, "update 32")
    assert update.most_calls == 1
    ((sample, priorities),) = update.prepare(1)
    assert len(sample[2]) == len(priorities) == 32


def test_every_cell_that_is_promised_has_its_target():
    large = buffer_group("obs 17", 2**20)
    aims = {name: [(t.against, t.aim, t.form) for t in targets_of(large, name)] for p in large.phases for name in p}
    assert aims["sample 256"] == [("best peer", 6.0, "ahead"), ("floor", 1.8, "within")]
    assert aims["update 256"] == [("best peer", 10.0, "ahead")]
    assert aims["insert 64"] == [("best peer", 5.0, "ahead")]
    assert aims["sample 32"] == aims["insert 1"] == aims["update 1024"] == [("best peer", 2.0, "ahead")]
    for group in (buffer_group("84x84x4 shared", 2**13), all_cores_group("84x84x4 shared", 2**13)):
        assert [t.aim for t in targets_of(group, "sample 256")] == [3.0]
    assert [t.aim for t in targets_of(buffer_group("84x84x4 pairs", 2**13), "insert 64")] == [2.0]
    assert targets_of(tree_group(2**17), "find 256") == []


def test_the_plans_hold_what_they_should_and_the_quick_one_is_part_of_the_layouts():
    names = [group.name for group in full_plan(2).groups]
    assert len(names) == len(set(names)) == 13
    assert "obs 4, 2^20 rows" in names
    assert len(quick_plan(2).groups) < len(names)
    assert power(2**20) == "2^20"
    assert power(10**6) == "1,000,000"
