"""Joined stacks: obs and next_obs as views of one run of frames, and the same sample as without, whatever was added."""

import gc

import jax
import numpy as np
import pytest
from stacks import Stacks, pixel_replay, pixel_steps, stack_fields, stack_spec

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Replay, Sample, Sequences, joined_frames


def broken(num_steps, *, stack, break_rate, end_rate, num_envs=4, **settings):
    """A replay of stacks in nested fields; chains break, and windows are cut, at these rates."""
    rng = np.random.default_rng(stack)
    replay = Replay(num_steps * num_envs, stack_spec(stack), frame_stack=stack, seed=7, **settings)
    writer, stacks = replay.writer(num_envs), Stacks(num_envs, stack, rng)
    for t in range(num_steps):
        obs, next_obs = stacks.step(rng, break_rate=break_rate)
        writer.add(
            obs=stack_fields(obs),
            action=np.arange(num_envs) + t * num_envs,
            reward=rng.random(num_envs),
            next_obs=stack_fields(next_obs),
            terminated=rng.random(num_envs) < end_rate,
            truncated=np.zeros(num_envs, bool),
        )
    return replay


def pixels(num_steps, stack=4, *, num_bytes=50, episode=20, num_envs=2, **settings):
    """A replay of random images in episodes, as Atari gives them."""
    replay = pixel_replay(num_steps * num_envs, stack, num_bytes=num_bytes, **settings)
    writer = replay.writer(num_envs)
    for step in pixel_steps(np.random.default_rng(1), num_steps, num_envs, stack, episode=episode, num_bytes=num_bytes):
        writer.add(**step)
    return replay


def assert_same(sample, expected):
    jax.tree.map(np.testing.assert_array_equal, tuple(sample), tuple(expected))


@pytest.mark.parametrize("stack", [2, 4])
@pytest.mark.parametrize("num_step", [1, 2, 3])
@pytest.mark.parametrize("break_rate", [0, 0.02])
@pytest.mark.parametrize("sizes", [(8, None), (64, 3)])
def test_samples_are_the_same_as_without(stack, num_step, break_rate, sizes):
    def make():
        return broken(100, stack=stack, num_step=num_step, break_rate=break_rate, end_rate=break_rate)

    batch, num_batches = sizes
    with make() as apart, make() as joined:
        for _ in range(30):
            expected = apart.sample(batch, num_batches=num_batches)
            assert_same(joined.sample(batch, num_batches=num_batches, join_stacks=True), expected)


@pytest.mark.parametrize("num_step", [1, 2, 3])
def test_obs_and_next_obs_are_read_only_views_of_one_contiguous_array(num_step):
    with broken(50, stack=4, num_step=num_step, break_rate=0, end_rate=0) as replay:
        data = replay.sample(5, num_batches=2, join_stacks=True).data
        for field, item in (("pixels", (3,)), ("speed", ())):
            obs, next_obs = data["obs"][field], data["next_obs"][field]
            found = joined_frames(obs, next_obs)
            assert found is not None
            frames, shift = found
            assert (shift, frames.shape) == (num_step, (2, 5, 4 + num_step, *item))
            assert frames.flags.c_contiguous
            assert frames.ctypes.data % 64 == 0
            np.testing.assert_array_equal(frames[:, :, :4], obs)
            np.testing.assert_array_equal(frames[:, :, shift:], next_obs)
            assert np.shares_memory(frames[:, :, :4], obs)
            assert np.shares_memory(frames[:, :, shift:], next_obs)
            for view in (obs, next_obs):
                with pytest.raises(ValueError, match="read-only"):
                    view[0] = 0
        data["action"][:] = 0  # the others are the caller's as ever


def test_first_steps_of_episodes_and_last_ones_are_joined_with_one_step():
    with pixels(60, episode=3) as replay:
        data = replay.sample(len(replay), join_stacks=True).data
        assert joined_frames(data["obs"], data["next_obs"]) is not None
        assert data["terminated"].any()


def test_a_single_row_that_does_not_follow_makes_two_arrays_of_the_same_draws():
    def make():
        replay = pixels(600, num_envs=30, stack=3, num_bytes=4, prioritized=False)
        odd = next(pixel_steps(np.random.default_rng(9), 1, 1, 3, num_bytes=4))
        replay.writer().add(**{**odd, "next_obs": odd["obs"] + 1, "number": np.array([-1])})
        return replay

    with make() as apart, make() as joined:
        size, shown = len(joined), set()
        for _ in range(12):  # of more rows than are drawn at once, so that some are there as runs already
            expected = apart.sample(size, mode="iid")
            sample = joined.sample(size, mode="iid", join_stacks=True)
            assert_same(sample, expected)
            is_joined = joined_frames(sample.data["obs"], sample.data["next_obs"]) is not None
            assert is_joined == (-1 not in sample.data["number"])
            assert is_joined != sample.data["obs"].flags.writeable
            shown.add(is_joined)
        assert shown == {False, True}


def test_windows_cut_by_the_end_of_an_episode_make_two_arrays():
    with pixels(40, num_step=2) as replay:
        data = replay.sample(len(replay), join_stacks=True).data
        assert joined_frames(data["obs"], data["next_obs"]) is None


@pytest.mark.parametrize(
    "settings",
    [{}, {"share_next_obs": True}, {"frame_stack": 2, "num_step": 2}, {"sequence": Sequences(length=3)}],
    ids=["pairs", "shared", "no frame in common", "sequences"],
)
def test_it_changes_nothing_where_stacks_have_no_frames_in_common(settings):
    def make():
        replay = Replay(40, {"obs": ((2, 3), "float32")}, seed=1, **settings)
        writer, rng = replay.writer(), np.random.default_rng(0)
        frames = rng.random((40, 3), np.float32)
        for t in range(38):
            obs, next_obs, no = frames[None, t : t + 2], frames[None, t + 1 : t + 3], np.zeros(1, bool)
            writer.add(obs=obs, next_obs=next_obs, reward=np.ones(1), terminated=no, truncated=no)
        return replay

    with make() as apart, make() as joined:
        sample = joined.sample(8, join_stacks=True)
        assert_same(sample, apart.sample(8))
        assert joined_frames(sample.data["obs"], sample.data["next_obs"]) is None
        sample.data["obs"][:] = 0


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("batch", [7, 700])  # 8 MiB and more: written past the caches
def test_large_frames_are_joined_by_any_number_of_threads(num_threads, batch):
    with pixels(200, num_bytes=2500, num_envs=4) as apart, pixels(200, num_bytes=2500, num_envs=4) as joined:
        for _ in range(2):
            sample = joined.sample(batch, num_threads=num_threads, join_stacks=True)
            assert joined_frames(sample.data["obs"], sample.data["next_obs"]) is not None
            assert_same(sample, apart.sample(batch))


def test_a_view_keeps_the_frames_and_no_later_sample_is_written_there():
    with pixels(40) as replay:
        view = replay.sample(16, join_stacks=True).data["next_obs"][3:5]
        before = view.copy()
        gc.collect()
        for _ in range(20):
            replay.sample(16, join_stacks=True)
        np.testing.assert_array_equal(view, before)
    np.testing.assert_array_equal(view, before)


def test_memory_that_was_let_go_is_used_again():
    with pixels(40) as replay:
        places = {replay.sample(16, join_stacks=True).data["obs"].ctypes.data for _ in range(20)}
        assert len(places) <= 2


def test_map_takes_the_frames_once_and_slices_what_becomes_of_them():
    with broken(50, stack=3, break_rate=0, end_rate=0) as replay:
        sample, shapes = replay.sample(5, num_batches=2, join_stacks=True), []
        doubled = sample.map(lambda array: shapes.append(array.shape) or array * 2)
        assert shapes.count((2, 5, 4, 3)) == shapes.count((2, 5, 4)) == 1
        assert len(shapes) == 2 + 1 + 4 + 2  # frames of two fields, the action, ours, weights and keys
        assert_same(jax.tree.map(lambda array: array * 2, tuple(sample)), doubled)


@pytest.mark.parametrize(
    "function", [lambda a: a.swapaxes(1, 2), lambda a: a.reshape(len(a), -1), lambda a: a[0], lambda a: a[:2]]
)
def test_map_refuses_what_it_could_not_slice(function):
    with pixels(40) as replay:
        with pytest.raises(InvalidInput, match=r"map: of joined stacks the first 2 axes .* joined_frames"):
            replay.sample(8, join_stacks=True).map(lambda array: function(array) if array.ndim > 1 else array)
        narrower = replay.sample(8, join_stacks=True).map(lambda array: array[..., :1] if array.ndim > 1 else array)
        assert narrower.data["obs"].shape[:2] == narrower.data["next_obs"].shape[:2] == (8, 4)


def test_after_joined_stacks_what_does_not_fit_is_refused_as_ever():
    with pixels(40) as replay:
        for out in (replay.new_batch(4), replay.sample(8, join_stacks=True), "nonsense"):
            replay.sample(8, join_stacks=True)
            with pytest.raises(InvalidInput, match="out: expected"):
                replay.sample(8, out=out)
        out = replay.new_batch(8)
        out.keys[:] = 0
        assert replay.sample(8, out=out) is out
        assert out.keys.all()


def test_jax_takes_the_frames_without_a_copy():
    with pixels(40) as replay:
        sample = replay.sample(16, join_stacks=True)
        frames, shift = joined_frames(sample.data["obs"], sample.data["next_obs"])
        taken = jax.dlpack.from_dlpack(frames)
        assert taken.unsafe_buffer_pointer() == frames.ctypes.data
        next_obs = jax.jit(lambda frames: frames[:, shift:])(taken)
        np.testing.assert_array_equal(next_obs, sample.data["next_obs"])
        mapped = sample._replace(keys=sample.weights).map(jax.dlpack.from_dlpack)
        np.testing.assert_array_equal(mapped.data["obs"], sample.data["obs"])


def test_out_and_joined_stacks_exclude_each_other():
    with pixels(40) as replay, pytest.raises(InvalidInput, match=r"out: joined stacks come in memory of their own"):
        replay.sample(4, out=replay.new_batch(4), join_stacks=True)


def test_prefetched_samples_are_joined_as_well():
    with pixels(40) as replay, replay.prefetch(8, join_stacks=True) as samples:
        data = next(samples).data
        assert joined_frames(data["obs"], data["next_obs"]) is not None


def test_tuples_of_arrays_are_joined_as_well():
    with Replay(20, {"obs": [((2, 3), "uint8"), ((2,), "float32")]}, frame_stack=2) as replay:
        writer, no = replay.writer(), np.zeros(1, bool)
        for t in range(10):
            obs, next_obs = (
                (np.full((1, 2, 3), [[t + a], [t + 1 + a]], np.uint8), np.array([[t + a, t + 1 + a]], np.float32))
                for a in (0, 1)
            )
            writer.add(obs=obs, next_obs=next_obs, reward=np.ones(1), terminated=no, truncated=no)
        data = replay.sample(4, join_stacks=True).data
        for obs, next_obs in zip(data["obs"], data["next_obs"], strict=True):
            assert joined_frames(obs, next_obs) is not None
            np.testing.assert_array_equal(obs[:, 1], next_obs[:, 0])


def test_the_two_the_other_way_round_are_refused():
    with pixels(40) as replay:
        data = replay.sample(4, join_stacks=True).data
        with pytest.raises(InvalidInput, match="expected obs and the next_obs of the same sample, in this order"):
            joined_frames(data["next_obs"], data["obs"])


@pytest.mark.parametrize("num_step", [1, 2])
def test_the_frames_of_one_batch_among_several_are_a_view_of_those_of_all(num_step):
    with pixels(60, num_step=num_step) as replay:
        sample = replay.sample(8, num_batches=3, join_stacks=True)
        whole, apart = joined_frames(sample.data["obs"], sample.data["next_obs"])
        for index in range(3):
            obs, next_obs = sample.data["obs"][index], sample.data["next_obs"][index]
            frames, between = joined_frames(obs, next_obs)
            assert between == apart
            assert np.shares_memory(frames, whole)
            np.testing.assert_array_equal(frames, whole[index])
            np.testing.assert_array_equal(frames[:, :4], obs)
            np.testing.assert_array_equal(frames[:, between:], next_obs)
        assert joined_frames(sample.data["obs"][0], sample.data["next_obs"][1]) is None
        with pytest.raises(InvalidInput, match="in this order"):
            joined_frames(sample.data["next_obs"][1], sample.data["obs"][1])
        once = sample.map(lambda array: array + 0)
        np.testing.assert_array_equal(once.data["obs"], sample.data["obs"])


def test_a_view_of_a_larger_array_that_is_no_joined_stack_is_mapped_by_itself(tmp_path):
    np.save(tmp_path / "all.npy", np.arange(4000.0).reshape(1000, 4))
    mapped_file = np.load(tmp_path / "all.npy", mmap_mode="r")
    obs, next_obs, columns = mapped_file[:32], mapped_file[1:33], mapped_file[:, :3]
    shapes = []

    def centred(array):
        shapes.append(array.shape)
        return array - array.mean(0)

    data = {"obs": obs, "next_obs": next_obs, "columns": columns}
    found = Sample(data, np.ones(32, np.float32), np.arange(32, dtype=np.uint64)).map(centred)
    assert shapes == [(32, 4), (32, 4), (1000, 3), (32,), (32,)]
    for name, array in data.items():
        np.testing.assert_array_equal(found.data[name], array - array.mean(0))
    assert joined_frames(obs, next_obs) is None


def test_parts_of_read_only_arrays_in_another_order_are_mapped_by_themselves(tmp_path):
    np.save(tmp_path / "all.npy", np.asfortranarray(np.arange(60.0).reshape(4, 5, 3)))
    whole = np.load(tmp_path / "all.npy", mmap_mode="r")
    data = {"rows": whole[1], "columns": whole[:, 2], "last": whole[..., 1]}
    found = Sample(data, np.ones(4, np.float32), np.arange(4, dtype=np.uint64)).map(lambda array: array + 1)
    for name, array in data.items():
        np.testing.assert_array_equal(found.data[name], array + 1)


def test_arrays_of_a_batch_of_ones_own_are_mapped_by_themselves():
    replay = pixels(20)
    batch = replay.sample(8, out=replay.new_batch(8))
    batch.data["reward"].flags.writeable = False
    np.testing.assert_array_equal(batch.map(lambda array: array + 1).data["reward"], batch.data["reward"] + 1)
