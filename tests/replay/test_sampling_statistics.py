"""Rows are drawn exactly as often as their priorities say, the rarest included, and sums never drift."""

import multiprocessing
import threading

import numpy as np
import pytest
from filled import count_draws, filled_replay, first_keys, slots_of

from drivetrain.replay import Replay

NUM_LEAVES = 2**22


def chi_square_by_pools(counts, priorities):
    """chi²/df over pools of leaves of like priority, every leaf in one, each expecting >= 5 draws."""
    order = np.argsort(priorities, kind="stable")
    expected = priorities[order] * (counts.sum() / priorities.sum())
    sums = np.cumsum(expected)
    pools, first, filled = [], 0, 0.0
    while first < len(sums):  # rare leaves come first: the next pool ends where it has reached 5
        if expected[first] >= 5:
            pools += range(first, len(sums))
            break
        last = int(np.searchsorted(sums, filled + 5.0))
        if last >= len(sums):
            break  # the rest joins the last pool
        pools.append(first)
        first, filled = last + 1, sums[last]
    pooled_counts, pooled = np.add.reduceat(counts[order], pools), np.add.reduceat(expected, pools)
    assert pooled.min() >= 5 - 1e-6
    assert pooled_counts.sum() == counts.sum()
    num_free = len(pools) - 1
    return float(((pooled_counts - pooled) ** 2 / pooled).sum() / num_free), num_free


def heavy_tailed(name, num_leaves):
    rng = np.random.default_rng(2110_01101)
    if name == "pareto":
        return rng.pareto(1.5, num_leaves) + 0.01
    return rng.lognormal(0.0, 2.0, num_leaves)


def draws_at_full_size(name, num_draws):
    priorities = heavy_tailed(name, NUM_LEAVES)
    replay = filled_replay(NUM_LEAVES, alpha=1.0, seed=7)
    assert replay.update_priorities(first_keys(NUM_LEAVES), priorities) == 0
    return count_draws(replay, num_draws, mode="iid"), priorities


@pytest.mark.whole
def test_iid_draws_pass_a_chi_square_with_every_leaf_in_a_pool():
    counts, priorities = draws_at_full_size("lognormal", 12 * 2**20)
    ratio, num_free = chi_square_by_pools(counts, priorities)
    assert num_free > 500_000  # the bound below is 2.5 standard deviations there, sqrt(2 / num_free) each
    assert 0.995 < ratio < 1.005
    rarest = np.argsort(priorities)[: NUM_LEAVES // 10]
    expected = counts.sum() * priorities[rarest].sum() / priorities.sum()
    assert abs(counts[rarest].sum() - expected) < 5 * np.sqrt(expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lognormal", "pareto"])
def test_sixty_million_iid_draws_pass_the_chi_square_within_half_a_percent(name):
    counts, priorities = draws_at_full_size(name, 60 * 2**20)
    ratio, num_free = chi_square_by_pools(counts, priorities)
    print(f"{name}: chi²/df = {ratio:.5f}, df = {num_free}, s.d. = {np.sqrt(2 / num_free):.5f}")  # noqa: T201
    assert num_free > 1_500_000  # 0.005 is more than four standard deviations
    assert 0.995 < ratio < 1.005
    rarest = np.argsort(priorities)[: NUM_LEAVES // 10]
    expected = counts.sum() * priorities[rarest].sum() / priorities.sum()
    assert abs(counts[rarest].sum() - expected) < 4 * np.sqrt(expected)
    assert (counts[rarest] > 0).mean() == pytest.approx(
        np.mean(-np.expm1(-counts.sum() * priorities[rarest] / priorities.sum())), rel=0.02
    )


@pytest.mark.parametrize("prioritized", [True, False])
def test_stratified_draws_are_as_frequent_as_priorities_and_vary_less(prioritized):
    capacity = 1000
    replay = filled_replay(capacity, prioritized=prioritized, alpha=1.0, seed=3)
    priorities = np.ones(capacity)
    if prioritized:
        priorities = heavy_tailed("lognormal", capacity)
        replay.update_priorities(first_keys(capacity), priorities)
    counts = sum(np.bincount(slots_of(replay.sample(500).keys), minlength=capacity) for _ in range(2000))
    expected = priorities / priorities.sum() * counts.sum()
    assert ((counts - expected) ** 2 / expected).sum() / (capacity - 1) < 1.0
    np.testing.assert_allclose(counts, expected, atol=5 * np.sqrt(expected.max()))


@pytest.mark.parametrize(("num_rows", "batch_size"), [(5, 3), (100, 64), (300, 256), (72, 16)])
def test_uniform_draws_in_strata_that_do_not_divide_the_rows_are_uniform(num_rows, batch_size):
    replay = filled_replay(num_rows, prioritized=False, seed=5)
    slots = slots_of(replay.sample(batch_size, num_batches=20_000).keys)
    counts, expected = np.bincount(slots, minlength=num_rows), slots.size / num_rows
    # Draws within strata vary less than independent ones.
    np.testing.assert_allclose(counts, expected, atol=4.5 * np.sqrt(expected))


def test_uniform_iid_draws_pass_a_chi_square():
    capacity = 2**20
    replay = filled_replay(capacity, prioritized=False, seed=11)
    counts = count_draws(replay, 8 * 2**20, mode="iid")
    ratio, num_free = chi_square_by_pools(counts, np.ones(capacity))
    assert num_free == capacity - 1
    assert 0.995 < ratio < 1.005  # 3.6 standard deviations


def test_slots_never_written_are_never_drawn():
    for prioritized in (True, False):
        replay = filled_replay(2**14, num_rows=777, prioritized=prioritized)
        for mode in ("iid", "stratified"):
            assert slots_of(replay.sample(777, num_batches=100, mode=mode).keys).max() < 777


def test_a_priority_of_zero_is_drawn_at_the_rate_of_epsilon():
    replay = filled_replay(64, alpha=1.0)
    replay.update_priorities(first_keys(64), np.where(np.arange(64) < 32, 0.0, 1.0))
    counts = count_draws(replay, 2**21, mode="iid")
    assert counts[:32].sum() <= 20  # 2 expected: 32 * 1e-6 of 32
    replay.update_priorities(first_keys(64), np.zeros(64))  # nothing but epsilon: all alike again
    counts = count_draws(replay, 2**20, mode="iid")
    ratio, _ = chi_square_by_pools(counts, np.ones(64))
    assert ratio < 2.0


@pytest.mark.parametrize("capacity", [1, 2, 16, 17, 1000])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_extreme_priorities_leave_sums_exact_and_every_row_drawable(capacity, alpha):
    replay = filled_replay(capacity, alpha=alpha)
    keys = first_keys(capacity)
    for extreme in (0.0, 1e-30, 1e30, float(np.finfo(np.float32).max), 1.0):
        replay.update_priorities(keys, np.full(capacity, extreme))
        assert replay._table.is_consistent()
        assert set(slots_of(replay.sample(capacity).keys)) == set(range(capacity))  # equal parts: each once
        mixed = np.where(np.arange(capacity) % 2, extreme, 1.0)
        replay.update_priorities(keys, mixed)
        assert replay._table.is_consistent()
        sample = replay.sample(capacity, beta=1.0)
        assert np.isfinite(sample.weights).all()
        assert (sample.weights >= 0).all()
        assert sample.weights.max() == 1.0
    replay.update_priorities(keys, np.ones(capacity))
    assert set(slots_of(replay.sample(capacity, num_batches=50).keys)) == set(range(capacity))


def update_at_random(replay, seed, num_updates):
    rng = np.random.default_rng(seed)
    keys = first_keys(replay.capacity)
    while num_updates > 0:
        num = min(num_updates, 2**20)
        chosen = keys[rng.integers(0, len(keys), num)]
        replay.update_priorities(chosen, rng.pareto(1.2, num).astype(np.float32))
        num_updates -= num


def update_from_another_process(handle, seed, num_updates):
    with Replay.attach(handle) as replay:
        update_at_random(replay, seed, num_updates)


def assert_sums_are_exact_after(num_updates, capacity=2**18):
    """A quarter of the updates by each of two threads here and two processes."""
    with filled_replay(capacity, alpha=0.6, shared=True) as replay:
        context = multiprocessing.get_context("spawn")
        others = [
            context.Process(target=update_from_another_process, args=(replay.handle(), seed, num_updates // 4))
            for seed in (1, 2)
        ]
        for other in others:
            other.start()
        threads = [threading.Thread(target=update_at_random, args=(replay, s, num_updates // 4)) for s in (3, 4)]
        for thread in threads:
            thread.start()
        for worker in threads + others:
            worker.join()
        assert [other.exitcode for other in others] == [0, 0]
        assert replay._table.is_consistent()


@pytest.mark.whole
def test_sums_are_exact_after_concurrent_updates_by_threads_and_processes():
    assert_sums_are_exact_after(2 * 10**6)


@pytest.mark.slow
def test_sums_are_exact_after_1e8_concurrent_updates():
    assert_sums_are_exact_after(10**8)


@pytest.mark.slow
def test_sums_are_exact_after_1e8_updates_of_single_leaves():
    replay = filled_replay(2**20, alpha=1.0)
    update_at_random(replay, 0, 10**8)
    assert replay._table.is_consistent()
