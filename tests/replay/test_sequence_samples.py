"""Sequences with everything else: priorities of new rows, weights, tuples, batches of one's own, memory."""

import itertools

import numpy as np
import pytest
from filled import slots_of

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Replay, Sequences, memory_report
from drivetrain.replay.reference import ReferenceReplay
from drivetrain.replay.reference_sequences import ReferenceSequenceWriter

SPEC = {
    "obs": {"camera": ((2, 3), "uint8"), "pair": [((), "int16"), ((2,), "float32")]},
    "action": [((), "int64"), ((3,), "float32")],
    "state": [((4,), "float32"), ((), "int8")],
}
SEQUENCE = Sequences(length=3, burn_in=1, period=2, initial=("state",))


def random_step(rng, num_envs, *, ended=False, **more):
    def obs():
        pair = rng.integers(-9, 9, num_envs).astype("i2"), rng.random((num_envs, 2), np.float32)
        return {"camera": rng.integers(0, 256, (num_envs, 2, 3), np.uint8), "pair": pair}

    return {
        "obs": obs(),
        "next_obs": obs(),
        "action": (rng.integers(-9, 9, num_envs), rng.random((num_envs, 3), np.float32)),
        "state": (rng.random((num_envs, 4), np.float32), rng.integers(-9, 9, num_envs).astype("i1")),
        "reward": rng.standard_normal(num_envs),
        "terminated": np.full(num_envs, ended),
        "truncated": np.zeros(num_envs, bool),
        **more,
    }


def filled(capacity, num_steps=20, *, num_envs=3, **settings):
    replay = Replay(capacity, SPEC, sequence=SEQUENCE, **settings)
    writer, rng = replay.writer(num_envs), np.random.default_rng(0)
    for t in range(num_steps):
        writer.add(**random_step(rng, num_envs, ended=t % 7 == 6))
    return replay


def arrays_of(sample):
    found = []
    sample.map(found.append)
    return found


@pytest.mark.parametrize("spec", [SPEC, {"action": SPEC["action"], "state": SPEC["state"]}])
def test_a_given_priority_is_that_of_the_step_at_which_the_window_begins(spec):
    replay = Replay(100, spec, sequence=SEQUENCE, initial_priority="given", alpha=1.0)
    writer, rng = replay.writer(2), np.random.default_rng(0)
    for number, length in enumerate([7, 2, 9]):  # windows of 4 begin at 0, 2, 4; 0; 0, 2, 4, 6
        for t in range(length):
            given = np.array([100 * number + t, 1000 + 100 * number + t], np.float32)
            step = random_step(rng, 2, ended=t == length - 1, priority=given)
            writer.add(**{name: value for name, value in step.items() if "obs" in spec or "obs" not in name})
    begins = [0, 2, 4, 100, 200, 202, 204, 206]
    expected = np.repeat(begins, 2) + np.tile([0, 1000], len(begins))  # windows of both end in one step
    np.testing.assert_allclose(replay.priorities(replay.all_keys()), expected, rtol=1e-5, atol=1e-5)


def test_a_bad_priority_is_refused_and_changes_nothing_even_where_no_window_begins():
    replay = Replay(10, SPEC, sequence=SEQUENCE, initial_priority="given", alpha=1.0)
    writer, rng = replay.writer(), np.random.default_rng(0)
    writer.add(**random_step(rng, 1, priority=np.array([7.0])))
    with pytest.raises(InvalidInput, match="missing priority"):
        writer.add(**random_step(rng, 1))
    with pytest.raises(InvalidInput, match=r"priority.*finite float32 >= 0, got nan"):
        writer.add(**random_step(rng, 1, priority=np.array([np.nan])))
    writer.add(**random_step(rng, 1, ended=True, priority=np.array([8.0])))
    assert replay.sample(1).data["mask"].tolist() == [[True, True, False, False]]
    np.testing.assert_allclose(replay.priorities(replay.all_keys()), [7.0], rtol=1e-5)


@pytest.mark.parametrize(("initial", "expected"), [("running_max", 9.0), ("buffer_max", 2.0), (0.5, 0.5)])
def test_new_sequences_get_the_priority_that_the_replay_gives(initial, expected):
    replay = filled(12, 14, initial_priority=initial, alpha=1.0)
    replay.update_priorities(replay.all_keys(), np.full(len(replay), 9.0))
    replay.update_priorities(replay.all_keys(), np.full(len(replay), 2.0))
    writer, rng = replay.writer(), np.random.default_rng(0)
    for t in range(4):
        writer.add(**random_step(rng, 1, ended=t == 3))
    np.testing.assert_allclose(replay.priorities(replay.all_keys())[-1], expected, rtol=1e-5)


def test_weights_by_buffer_are_relative_to_the_rarest_sequence():
    replay = filled(12, alpha=1.0, weights_by="buffer")
    priorities = np.arange(1.0, 1 + len(replay))
    replay.update_priorities(replay.all_keys(), priorities)
    sample = replay.sample(8, num_batches=50, beta=1.0)
    np.testing.assert_allclose(sample.weights, 1 / replay.priorities(sample.keys), rtol=1e-5)


def test_samples_have_a_time_axis_and_tuples_where_the_spec_has_lists():
    data = filled(12).sample(5, num_batches=2).data
    assert isinstance(data["obs"]["pair"], tuple)
    assert data["obs"]["camera"].shape == data["next_obs"]["camera"].shape == (2, 5, 4, 2, 3)
    assert [part.shape for part in data["next_obs"]["pair"]] == [(2, 5, 4), (2, 5, 4, 2)]
    assert [part.shape for part in data["action"]] == [(2, 5, 4), (2, 5, 4, 3)]
    assert [part.shape for part in data["state"]] == [(2, 5, 4), (2, 5)]
    assert data["mask"].shape == data["reward"].shape == (2, 5, 4)


@pytest.mark.parametrize("num_batches", [None, 3])
def test_a_new_batch_takes_sequences(num_batches):
    replay, twin = filled(12), filled(12)
    batch = replay.new_batch(6, num_batches=num_batches)
    assert replay.sample(6, num_batches=num_batches, out=batch) is batch
    expected = twin.sample(6, num_batches=num_batches)
    for one, other in zip(arrays_of(batch), arrays_of(expected), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    with pytest.raises(InvalidInput, match=r"obs/camera to be a writable contiguous uint8\[5, 4, 2, 3\]"):
        replay.sample(5, out=replay.new_batch(6))


def test_prefetched_sequences_are_those_that_sample_draws():
    replay, twin = filled(12), filled(12)
    with replay.prefetch(4, depth=2) as samples:
        for ahead in itertools.islice(samples, 5):
            for one, other in zip(arrays_of(ahead), arrays_of(twin.sample(4)), strict=True):
                np.testing.assert_array_equal(one, other)


def test_samples_let_go_of_are_used_again():
    replay = filled(12)
    addresses = {replay.sample(4).keys.ctypes.data for _ in range(10)}
    assert len(addresses) == 1


@pytest.mark.parametrize(
    "settings", [{}, {"prioritized": False}, {"weights_by": "buffer", "initial_priority": "given"}]
)
def test_the_memory_report_adds_up(settings):
    report = memory_report(70, SPEC, sequence=SEQUENCE, **settings)
    with Replay(70, SPEC, sequence=SEQUENCE, **settings) as replay:
        assert report.nbytes == replay.nbytes == sum(region.nbytes for region in report.regions)
    sizes = {region.name: region.nbytes for region in report.regions}
    assert sizes["action/1"] == 70 * 4 * 12  # of each of the four steps
    assert sizes["state/0"] == 70 * 16  # of the first
    assert sizes["mask"] == 70 * 4
    assert sizes["frames of a row"] >= 70 * 4 * 2 * 4
    assert "obs/camera" not in sizes
    assert min(sizes.values()) > 0


def test_a_report_refuses_what_the_replay_refuses():
    with pytest.raises(InvalidInput, match="num_step: expected 1 with sequences"):
        memory_report(70, SPEC, sequence=SEQUENCE, num_step=2)


def test_saved_sequences_keep_their_tuples_and_their_settings(tmp_path):
    replay = filled(12, initial_priority=0.5, weights_by="buffer")
    replay.save(tmp_path / "replay")
    loaded = Replay.load(tmp_path / "replay")
    for one, other in zip(arrays_of(replay.sample(4)), arrays_of(loaded.sample(4)), strict=True):
        assert one.shape == other.shape
    data = loaded.sample(4).data
    assert isinstance(data["obs"]["pair"], tuple)
    assert loaded._settings == replay._settings


def test_steps_of_more_environments_than_a_lock_hold_takes_equal_the_oracle():
    spec, settings = {"x": ((), "int64")}, {"sequence": Sequences(length=2), "alpha": 1.0, "initial_priority": "given"}
    native, oracle = Replay(2500, spec, **settings), ReferenceReplay(2500, spec, **settings)
    writers = native.writer(1500), ReferenceSequenceWriter(oracle, 1500, settings["sequence"])
    rng = np.random.default_rng(0)
    for _ in range(5):
        step = {
            "x": rng.integers(0, 2**60, 1500),
            "reward": np.zeros(1500),
            "terminated": rng.random(1500) < 0.3,
            "truncated": np.zeros(1500, bool),
            "priority": rng.random(1500).astype(np.float32),
        }
        for writer in writers:
            writer.add(**step)
    np.testing.assert_array_equal(native.all_keys(), oracle.all_keys())
    ours, theirs = native.sample(700), oracle.sample(700)
    np.testing.assert_array_equal(slots_of(ours.keys), slots_of(theirs.keys))
    for name in ("x", "mask", "discount"):
        np.testing.assert_allclose(ours.data[name], theirs.data[name], rtol=1e-6)
