"""All keys, all priorities, statistics of leaves: what was given comes back, for any size."""

import math

import numpy as np
import pytest
from filled import add_rows, filled_replay, first_keys, slots_of

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import PriorityStats
from drivetrain.replay.testing import check_consistent

TRACKED = pytest.mark.parametrize("weights_by", ["batch", "buffer"])  # with "buffer", extremes are kept


@TRACKED
@pytest.mark.parametrize("alpha", [0.4, 1.0])
@pytest.mark.parametrize("capacity", [1, 1023, 1024, 1025, 70_001])
def test_priorities_of_all_rows_can_be_written_and_read_back(capacity, alpha, weights_by):
    replay = filled_replay(capacity, alpha=alpha, weights_by=weights_by)
    keys = replay.all_keys()
    assert keys.dtype == np.uint64
    np.testing.assert_array_equal(keys, first_keys(capacity))
    values = np.random.default_rng(0).exponential(2.0, capacity)
    values[0] = 0.0
    assert replay.update_priorities(keys, values) == 0
    read = replay.priorities(keys)
    assert read.dtype == np.float64
    np.testing.assert_allclose(read, values, rtol=1e-5, atol=1e-8)
    leaves = (values + 1e-6) ** alpha
    stats = replay.priority_stats()
    assert stats.count == capacity
    np.testing.assert_allclose(
        [stats.minimum, stats.maximum, stats.sum, stats.mean],
        [leaves.min(), leaves.max(), leaves.sum(), leaves.mean()],
        rtol=1e-4,
    )
    np.testing.assert_allclose(
        [stats.minimum_priority, stats.maximum_priority], [0.0, values.max()], rtol=1e-5, atol=1e-8
    )
    check_consistent(replay)


@pytest.mark.parametrize("prioritized", [True, False])
def test_all_keys_are_in_the_order_of_insertion(prioritized):
    replay = filled_replay(100, num_rows=30, prioritized=prioritized)
    np.testing.assert_array_equal(replay.all_keys(), first_keys(30))
    add_rows(replay, 85)  # the ring goes round: slots 0 to 14 are the newest
    keys = replay.all_keys()
    assert slots_of(keys).tolist() == [*range(15, 100), *range(15)]
    assert (keys >> np.uint64(32)).tolist() == [2] * 85 + [4] * 15


def test_an_empty_replay_has_no_keys_and_no_extremes():
    replay = filled_replay(100, num_rows=0)
    assert replay.all_keys().shape == replay.priorities(replay.all_keys()).shape == (0,)
    stats = replay.priority_stats()
    assert (stats.count, stats.sum) == (0, 0.0)
    assert all(map(math.isnan, (stats.minimum, stats.maximum, stats.mean, stats.minimum_priority)))
    assert isinstance(stats, PriorityStats)


def test_the_priority_of_a_stale_key_is_no_number():
    replay = filled_replay(10)
    keys = replay.sample(5, num_batches=4).keys
    add_rows(replay, 3)
    stale = slots_of(keys).reshape(4, 5) < 3
    assert stale.any()
    assert not stale.all()
    np.testing.assert_array_equal(np.isnan(replay.priorities(keys)), stale)
    np.testing.assert_allclose(replay.priorities(keys)[~stale], 1.0, rtol=1e-5)


def test_an_alpha_of_zero_keeps_no_priorities():
    replay = filled_replay(10, alpha=0.0)
    assert np.isnan(replay.priorities(replay.all_keys())).all()
    stats = replay.priority_stats()
    assert (stats.minimum, stats.maximum, stats.mean) == (1.0, 1.0, 1.0)
    assert math.isnan(stats.minimum_priority)
    assert math.isnan(stats.maximum_priority)


@TRACKED
def test_extremes_follow_updates_and_overwritten_rows(weights_by):
    replay = filled_replay(3000, alpha=1.0, weights_by=weights_by)
    keys = first_keys(3000)
    replay.update_priorities(keys[[5, 2500]], np.array([100.0, 0.01]))
    stats = replay.priority_stats()
    np.testing.assert_allclose([stats.minimum_priority, stats.maximum_priority], [0.01, 100], rtol=1e-4)
    replay.update_priorities(keys[[2500]], np.array([3.0]))
    add_rows(replay, 6)  # the row of 100 is gone, and six new ones have the running maximum
    replay.update_priorities(replay.all_keys()[-6:], np.full(6, 2.0))
    stats = replay.priority_stats()
    np.testing.assert_allclose([stats.minimum_priority, stats.maximum_priority], [1, 3], rtol=1e-4)


@pytest.mark.parametrize("keys", [np.arange(4.0), np.zeros(4, np.uint64), first_keys(99)[98:]])
def test_priorities_of_what_is_no_key_are_refused(keys):
    with pytest.raises(InvalidInput, match=r"keys.*pass"):
        filled_replay(4).priorities(keys)


def test_keys_of_any_layout_are_taken():
    replay = filled_replay(16, alpha=1.0)
    keys = first_keys(16)
    replay.update_priorities(keys, np.arange(16.0))
    read = replay.priorities(keys.reshape(4, 4)[:, ::2])
    np.testing.assert_allclose(read, np.arange(16.0).reshape(4, 4)[:, ::2], rtol=1e-5, atol=1e-8)


def test_a_uniform_replay_has_keys_but_no_priorities():
    replay = filled_replay(4, prioritized=False)
    for ask in (replay.priority_stats, lambda: replay.priorities(replay.all_keys()), lambda: replay.set_alpha(0.5)):
        with pytest.raises(InvalidInput, match="uniform; create it with prioritized=True"):
            ask()
