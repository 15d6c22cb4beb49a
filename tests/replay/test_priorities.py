"""Priorities, weights, stale keys: what the formulas say, on small replays."""

import numpy as np
import pytest
from filled import ONE_BYTE, add_rows, count_draws, filled_replay, first_keys, slots_of

from drivetrain.replay import Replay
from drivetrain.replay.reference import ReferenceReplay

CAPACITY = 16


def leaves(replay):
    """Relative probabilities as weights with beta=1 tell them, by slot."""
    sample = replay.sample(CAPACITY, num_batches=400, mode="iid", beta=1.0)
    probability = np.zeros(CAPACITY)
    batch = np.argmax([len(set(slots_of(keys))) for keys in sample.keys])
    probability[slots_of(sample.keys[batch])] = 1 / sample.weights[batch]
    return probability


def test_weights_are_the_formula_divided_by_their_maximum():
    replay = filled_replay(CAPACITY, alpha=0.5)
    priorities = np.linspace(0.1, 5, CAPACITY)
    replay.update_priorities(first_keys(CAPACITY), priorities)
    probability = (priorities + 1e-6) ** 0.5 / ((priorities + 1e-6) ** 0.5).sum()
    for beta in (0.0, 0.3, 1.0):
        sample = replay.sample(CAPACITY, num_batches=3, beta=beta)
        expected = (CAPACITY * probability[slots_of(sample.keys)].reshape(3, CAPACITY)) ** -beta
        np.testing.assert_allclose(sample.weights, expected / expected.max(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("beta", [0.4, 0.6, 0.7])
def test_weights_are_those_of_the_oracle_to_the_last_bit(beta):
    native, oracle = filled_replay(CAPACITY), ReferenceReplay(CAPACITY, ONE_BYTE)
    row = {"x": 0, "reward": 0.0, "discount": 0.0, "terminated": False, "truncated": True}
    oracle.insert([dict(row) for _ in range(CAPACITY)])
    for replay in (native, oracle):
        replay.update_priorities(first_keys(CAPACITY), np.linspace(0.1, 5, CAPACITY, dtype=np.float32))
    for _ in range(20):
        drawn, expected = native.sample(CAPACITY, beta=beta), oracle.sample(CAPACITY, beta=beta)
        np.testing.assert_array_equal(drawn.keys, expected.keys)
        np.testing.assert_array_equal(drawn.weights, expected.weights)


def test_weights_by_buffer_are_divided_by_the_largest_that_any_row_could_have():
    replay = filled_replay(5000, alpha=0.5, weights_by="buffer", shared=True)
    priorities = np.linspace(0.1, 5, 5000)
    replay.update_priorities(first_keys(5000), priorities)
    root = np.sqrt(priorities + 1e-6)
    for beta in (0.0, 0.3, 1.0):
        for drawn_by in (replay, Replay.attach(replay.handle())):
            sample = drawn_by.sample(16, num_batches=100, beta=beta)  # draws that fill more than one hold of the lock
            probability = root[slots_of(sample.keys)].reshape(100, 16) / root.sum()
            expected = (5000 * probability) ** -beta / (5000 * root.min() / root.sum()) ** -beta
            np.testing.assert_allclose(sample.weights, expected, rtol=1e-5)
    assert sample.weights.max(axis=1).min() < 0.9  # a batch need not hold the largest
    replay.update_priorities(first_keys(5000)[:10], np.full(10, 5.0))  # those of the smallest priorities
    assert replay.sample(5000, num_batches=20, beta=1.0).weights.max() == pytest.approx(1.0)


@pytest.mark.parametrize("weights_by", ["batch", "buffer"])
def test_rows_that_are_being_written_do_not_count_as_the_smallest_of_the_buffer(weights_by):
    replay = Replay(64, {"x": ((), "uint8")}, weights_by=weights_by)
    add_rows(replay, 40)  # 24 slots have no row yet
    assert (replay.sample(16, beta=1.0).weights == 1).all()
    assert (filled_replay(16, prioritized=False, weights_by=weights_by).sample(8, beta=1.0).weights == 1).all()


def test_beta_of_zero_corrects_nothing():
    replay = filled_replay(CAPACITY, alpha=1.0)
    replay.update_priorities(first_keys(CAPACITY), np.arange(CAPACITY))
    assert (replay.sample(CAPACITY, beta=0).weights == 1).all()


def test_alpha_of_zero_draws_uniformly():
    replay = filled_replay(CAPACITY, alpha=0.0)
    replay.update_priorities(first_keys(CAPACITY), np.logspace(-30, 30, CAPACITY))
    counts = count_draws(replay, 2**20, mode="iid")
    assert abs(counts / counts.mean() - 1).max() < 0.03  # 7 standard deviations
    assert (replay.sample(CAPACITY, beta=1.0).weights == 1).all()


def test_alpha_of_one_draws_in_proportion():
    replay = filled_replay(CAPACITY, alpha=1.0)
    replay.update_priorities(first_keys(CAPACITY), np.arange(1, CAPACITY + 1))
    counts = count_draws(replay, 2**20, mode="iid")
    np.testing.assert_allclose(counts / counts.sum(), np.arange(1, 17) / 136, rtol=0.05)


def test_new_rows_get_the_largest_priority_seen_so_far():
    replay = filled_replay(CAPACITY, num_rows=3, alpha=1.0)
    replay.update_priorities(first_keys(3), np.array([0.5, 7.0, 0.25]))
    replay.update_priorities(first_keys(3), np.array([0.5, 0.5, 0.25]))  # the maximum stays
    add_rows(replay, CAPACITY - 3)
    expected = np.array([0.5, 0.5, 0.25] + [7.0] * (CAPACITY - 3)) + 1e-6
    probability = leaves(replay)
    drawn = probability > 0
    np.testing.assert_allclose(probability[drawn] / probability.max(), (expected / 7.000001)[drawn], rtol=1e-5)
    assert replay._table.stats()["max_priority"] == 7.0


def test_the_first_rows_have_priority_one():
    replay = filled_replay(CAPACITY, alpha=1.0)
    replay.update_priorities(first_keys(1), np.array([1.0]))
    assert (replay.sample(CAPACITY, beta=1.0).weights == 1).all()


def test_of_a_key_that_occurs_twice_the_last_priority_counts():
    replay = filled_replay(2, alpha=1.0)
    keys = first_keys(2)
    replay.update_priorities(np.concatenate([keys, keys, keys[:1]]), np.array([9.0, 9.0, 5.0, 1.0, 3.0]))
    counts = count_draws(replay, 2**20, mode="iid")
    np.testing.assert_allclose(counts / counts.sum(), [0.75, 0.25], rtol=0.01)
    assert replay._table.is_consistent()


def test_stale_keys_are_counted_and_change_nothing():
    replay = filled_replay(CAPACITY, alpha=1.0)
    keys = replay.sample(CAPACITY).keys
    add_rows(replay, 5)  # slots 0 to 4 have new rows
    before = replay._table.stats()["total_units"]
    stale = keys[slots_of(keys) < 5]
    assert replay.update_priorities(stale, np.full(5, 100.0)) == 5
    assert replay._table.stats()["total_units"] == before
    assert replay._table.stats()["max_priority"] == 1.0
    assert replay.update_priorities(keys, np.full(CAPACITY, 2.0)) == 5
    assert (replay.sample(CAPACITY, beta=0.0).weights == 1).all()
    assert replay.update_priorities(np.tile(stale, 1000), np.ones(5000)) == 5000


def test_a_stale_priority_is_not_the_largest_seen():
    replay = filled_replay(CAPACITY, alpha=1.0)
    keys = first_keys(CAPACITY)
    add_rows(replay, 1)
    priorities = np.where(np.arange(CAPACITY) == 0, 1e6, 0.5)  # the row of the large one is gone
    assert replay.update_priorities(keys, priorities) == 1
    assert replay._table.stats()["max_priority"] == 1.0


def test_keys_of_a_large_sample_are_updated_in_one_call():
    replay = filled_replay(5000, alpha=1.0)
    sample = replay.sample(2500, num_batches=2)
    assert replay.update_priorities(sample.keys, np.full((2, 2500), 3.0)) == 0
    assert replay._table.is_consistent()
    assert replay._table.stats()["max_priority"] == 3.0


def test_a_uniform_replay_weighs_all_rows_alike():
    replay = filled_replay(100, prioritized=False)
    for beta in (0.0, 1.0):
        sample = replay.sample(50, num_batches=2, beta=beta)
        assert sample.weights.dtype == np.float32
        assert (sample.weights == 1).all()
    assert len(set(slots_of(replay.sample(100).keys))) == 100  # a draw from each hundredth


@pytest.mark.parametrize("prioritized", [True, False])
def test_samples_do_not_change_when_rows_do(prioritized):
    replay = Replay(4, {"x": ((), "uint8")}, prioritized=prioritized)
    writer, no = replay.writer(4), np.zeros(4, bool)
    writer.add(x=np.full(4, 1, np.uint8), reward=np.ones(4), terminated=no, truncated=no)
    sample = replay.sample(4)
    writer.add(x=np.full(4, 2, np.uint8), reward=np.ones(4), terminated=no, truncated=no)
    assert (sample.data["x"] == 1).all()
    assert (replay.sample(4).data["x"] == 2).all()


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("mode", ["stratified", "iid"])
def test_equal_seeds_draw_equally_and_others_do_not(prioritized, mode):
    first, same, other = (filled_replay(1000, prioritized=prioritized, seed=seed) for seed in (1, 1, 2))
    for _ in range(3):
        keys = [replay.sample(100, mode=mode).keys for replay in (first, same, other)]
        np.testing.assert_array_equal(keys[0], keys[1])
        assert (keys[0] != keys[2]).any()


def test_capacity_one_holds_the_newest_row():
    replay = Replay(1, {"x": ((), "uint8")})
    writer, no = replay.writer(3), np.zeros(3, bool)
    writer.add(x=np.array([1, 2, 3], np.uint8), reward=np.zeros(3), terminated=no, truncated=no)
    sample = replay.sample(1, num_batches=5, beta=1.0)
    assert (sample.data["x"] == 3).all()
    assert (sample.weights == 1).all()
    assert replay.update_priorities(sample.keys, np.zeros((5, 1))) == 0
    assert replay.sample(1).data["x"] == 3
