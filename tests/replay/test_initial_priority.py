"""The priority of a new row: the running maximum, the buffer's, the producer's, or a constant."""

import numpy as np
import pytest
from filled import add_rows, filled_replay, first_keys, leaves_of, slots_of

from drivetrain.replay import Replay

STEP = {"reward": np.zeros(1), "terminated": np.zeros(1, bool), "truncated": np.zeros(1, bool)}


def test_a_constant_is_the_priority_of_every_new_row_whatever_was_updated():
    replay = filled_replay(4, num_rows=2, alpha=1.0, initial_priority=0.25)
    replay.update_priorities(first_keys(2), np.array([0.5, 0.5]))
    add_rows(replay, 2)
    np.testing.assert_allclose(leaves_of(replay), [0.5, 0.5, 0.25, 0.25], rtol=1e-5)


def test_new_rows_of_priority_zero_can_still_be_drawn():
    replay = filled_replay(16, initial_priority=0)
    assert (replay.sample(16).weights == 1).all()


def test_the_largest_priority_of_the_buffer_goes_when_its_row_goes():
    replay = filled_replay(4, alpha=1.0, initial_priority="buffer_max")
    replay.update_priorities(first_keys(4), np.array([8.0, 1.0, 2.0, 1.0]))
    add_rows(replay, 1)  # overwrites the row of 8: the largest left is 2
    replay.update_priorities(first_keys(4)[2:3], np.array([1.0]))
    np.testing.assert_allclose(leaves_of(replay), [2, 1, 1, 1], rtol=1e-5)
    add_rows(replay, 2)  # slot 0 has the 2 now
    np.testing.assert_allclose(leaves_of(replay), [2, 2, 2, 1], rtol=1e-5)


@pytest.mark.parametrize("capacity", [1, 5000])
def test_an_empty_buffer_has_a_largest_priority_of_one(capacity):
    replay = filled_replay(capacity, num_rows=1, alpha=1.0, initial_priority="buffer_max")
    if capacity == 1:
        replay.update_priorities(first_keys(1), np.array([9.0]))
        add_rows(replay, 1)  # while it is written over, the buffer is empty
    assert replay._table.stats()["size"] == 1
    total = replay._table.stats()["total_units"] * 2.0 ** replay._table.stats()["unit_exponent"]
    assert total == pytest.approx(1.0, rel=1e-5)


def test_a_given_priority_belongs_to_the_row_that_begins_at_that_step():
    replay = Replay(8, {"x": ((), "int64")}, num_step=3, alpha=1.0, initial_priority="given")
    writer = replay.writer()
    for t, priority in enumerate([1.0, 2.0, 4.0, 8.0]):
        last = np.array([t == 3])
        writer.add(x=np.array([t]), priority=np.array([priority]), **{**STEP, "truncated": last})
    by_slot = leaves_of(replay)[:4]
    np.testing.assert_allclose(by_slot, [1, 2, 4, 8], rtol=1e-5)
    data = replay.sample(4, num_batches=50)
    assert (slots_of(data.keys) == data.data["x"].ravel()).all()
    assert "priority" not in data.data


def test_given_priorities_may_differ_between_environments_and_batches_of_any_size():
    num_envs = 3000
    replay = Replay(num_envs, {"x": ((), "int64")}, alpha=1.0, initial_priority="given")
    priorities = np.random.default_rng(0).random(num_envs).astype(np.float32)
    no = np.zeros(num_envs, bool)
    replay.writer(num_envs).add(
        x=np.arange(num_envs), reward=no.astype("f4"), terminated=no, truncated=no, priority=priorities
    )
    sample = replay.sample(100, beta=1.0, mode="iid")
    drawn = priorities[sample.data["x"]] + 1e-6
    np.testing.assert_allclose(sample.weights, drawn.min() / drawn, rtol=1e-4)


@pytest.mark.parametrize("initial_priority", ["running_max", "buffer_max", "given", 0.5])
def test_where_new_rows_get_their_priority_is_kept_by_files_and_handles(initial_priority, tmp_path):
    with Replay(8, {"x": ((), "uint8")}, shared=True, initial_priority=initial_priority) as replay:
        replay.save(tmp_path / "file")
        for other in (Replay.attach(replay.handle()), Replay.load(tmp_path / "file")):
            assert other._settings == replay._settings
            extra = {"priority": np.ones(1)} if initial_priority == "given" else {}
            other.writer().add(x=np.zeros(1, np.uint8), **STEP, **extra)
            assert len(other) == 1
            other.close()
