"""Shared observations: what comes out is what went in, whatever went in; and each frame is stored once."""

import threading

import numpy as np
import pytest
from children import write_rows
from stacks import Stacks, pixel_replay, pixel_steps, stack_fields, stack_spec

from drivetrain.core.errors import FileFormatError, InvalidInput, NotEnoughData
from drivetrain.replay import Replay, Sequences
from drivetrain.replay.files.frames import FramesOut
from drivetrain.replay.frames import num_frames
from drivetrain.replay.reference import ReferenceReplay, ReferenceWriter
from drivetrain.replay.testing import TaggedStacks, check_consistent


def frames_taken(replay):
    """While the ring of frames has not come round."""
    return replay._table.stats()["next_frame"]


def assert_equal_samples(one, other):
    np.testing.assert_array_equal(one.keys, other.keys)
    for name, array in other.data.items():
        if isinstance(array, dict):
            for leaf in array:
                np.testing.assert_array_equal(one.data[name][leaf], array[leaf])
        else:
            np.testing.assert_allclose(one.data[name], array, rtol=1e-6)


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("num_step", [1, 3])
def test_with_long_episodes_a_sharing_replay_equals_one_without_sharing(stack, num_step):
    spec, settings = stack_spec(stack), {"num_step": num_step, "seed": 5}
    sharing = Replay(200, spec, share_next_obs=True, frame_stack=stack, **settings)
    plain = ReferenceReplay(200, spec, **settings)
    writers = sharing.writer(3), ReferenceWriter(plain, 3)
    rng = np.random.default_rng(0)
    stacks = Stacks(3, stack, rng)
    for t in range(400):  # six times round the ring of rows
        obs, next_obs = stacks.step(rng, break_rate=0.01)
        for writer in writers:
            writer.add(
                obs=stack_fields(obs),
                action=np.full(3, t),
                reward=np.full(3, t / 7),
                next_obs=stack_fields(next_obs),
                terminated=np.full(3, t % 100 == 99),
                truncated=np.zeros(3, bool),
            )
        assert len(sharing) == len(plain)
        if t % 20 == 19:
            assert_equal_samples(sharing.sample(32), plain.sample(32))
    assert sharing.num_dropped == 0


@pytest.mark.parametrize("stack", [1, 2, 4])
def test_an_episode_stores_each_frame_once(stack):
    replay = pixel_replay(1000, stack)
    writer = replay.writer(2)
    for step in pixel_steps(np.random.default_rng(0), 100, 2, stack, episode=50):
        writer.add(**step)
    assert frames_taken(replay) == 2 * 2 * (1 + 50)  # environments, episodes: the reset's frame, one per step
    assert len(replay) == 200


def test_what_does_not_follow_from_the_step_before_is_stored_as_it_is():
    replay = pixel_replay(100, 3)
    writer, rng = replay.writer(4), np.random.default_rng(1)
    added = {}
    for t in range(20):
        obs, next_obs = rng.integers(0, 2, (2, 4, 3, 50), np.uint8)
        number = np.arange(4) + 4 * t
        added |= {int(n): (obs[e], next_obs[e]) for e, n in enumerate(number)}
        no = np.zeros(4, bool)
        writer.add(obs=obs, number=number, reward=np.zeros(4), next_obs=next_obs, terminated=no, truncated=no)
    data = replay.sample(len(replay)).data
    assert len(replay) > 20
    for number, obs, next_obs in zip(data["number"], data["obs"], data["next_obs"], strict=True):
        np.testing.assert_array_equal(obs, added[int(number)][0])
        np.testing.assert_array_equal(next_obs, added[int(number)][1])


def test_an_observation_changed_in_one_bit_is_not_taken_for_the_last_one():
    replay = pixel_replay(100, 2)
    writer = replay.writer(1)
    steps = list(pixel_steps(np.random.default_rng(0), 3, 1, 2))
    steps[1]["obs"] = steps[1]["obs"].copy()
    steps[1]["obs"][0, 0, 49] ^= 0x80
    for step in steps:
        writer.add(**step)
    data = replay.sample(3).data
    for number, obs in zip(data["number"], data["obs"], strict=True):
        np.testing.assert_array_equal(obs, steps[number]["obs"][0])
    assert frames_taken(replay) == 1 + 1 + 2 + 1 + 1  # step 1 was stored anew; its next_obs goes on from it


def test_the_same_array_given_again_is_compared_not_trusted():
    replay = pixel_replay(50, 1)
    writer, no = replay.writer(1), np.zeros(1, bool)
    buffer = np.zeros((1, 1, 50), np.uint8)
    for t in range(30):
        buffer[:] = t  # one array for obs and next_obs, changed in place between calls
        writer.add(obs=buffer, number=np.array([t]), reward=np.zeros(1), next_obs=buffer, terminated=no, truncated=no)
    data = replay.sample(len(replay)).data
    assert (data["obs"][:, 0, 0] == data["number"]).all()
    assert (data["next_obs"] == data["obs"]).all()


def test_images_that_never_change_are_shared_in_the_smallest_replay_too():
    replay, num_envs = pixel_replay(1, 4), 200
    writer, no = replay.writer(num_envs), np.zeros(num_envs, bool)
    obs = np.zeros((num_envs, 4, 50), np.uint8)
    for t in range(20):
        number = np.full(num_envs, t)
        writer.add(obs=obs, number=number, reward=no * 0.0, next_obs=obs, terminated=no, truncated=no)
        assert replay.sample(1).data["number"].tolist() == [t]
    assert (replay.num_inserted, replay.num_dropped) == (20 * num_envs, 0)


def test_short_episodes_make_the_oldest_rows_leave_early():
    replay = pixel_replay(1000, 4)
    writer = replay.writer(1)
    for step in pixel_steps(np.random.default_rng(0), 3000, 1, 4, episode=3):
        writer.add(**step)  # four frames per three rows
    frames = num_frames(1000, 4, 1)
    assert 0.74 * frames <= len(replay) <= 0.76 * frames
    numbers = sorted(replay.sample(len(replay)).data["number"])
    assert numbers == list(range(3000 - len(replay), 3000))  # exactly the newest
    check_consistent(replay)
    with pytest.raises(NotEnoughData, match=r"got \d+; rows end early where frames .* use a larger capacity$"):
        replay.sample(replay.capacity)


def test_memory_is_what_the_documentation_says():
    spec = {"obs": ((4, 84, 84), "uint8"), "action": ((), "int64")}
    pairs = Replay(2**13, spec).nbytes
    shared = Replay(2**13, spec, share_next_obs=True).nbytes
    stacked = Replay(2**13, spec, frame_stack=4).nbytes
    assert 1.85 < pairs / shared < 1.95
    assert 7.3 < pairs / stacked < 7.6


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("num_steps", [30, 400])
def test_a_saved_sharing_replay_comes_back_with_its_sharing(tmp_path, prioritized, num_steps):
    tagged = TaggedStacks(100, stack=3)
    replay = Replay(1500, tagged.spec, frame_stack=3, prioritized=prioritized, seed=3)
    write_rows(replay, num_steps * 8, num_bytes=100)
    replay.save(tmp_path / "replay")
    loaded = Replay.load(tmp_path / "replay")
    assert (len(loaded), loaded.nbytes) == (len(replay), replay.nbytes)
    assert sorted(loaded.sample(len(loaded)).data["tag"]) == sorted(replay.sample(len(replay)).data["tag"])
    tagged.check(loaded.sample(1024, mode="iid", num_batches=3) if num_steps > 100 else loaded.sample(200))
    size = (tmp_path / "replay").stat().st_size
    assert size < len(replay) * (1.1 * 100 + loaded._schema.row_stride + 20) + 20_000  # each frame once
    write_rows(loaded, 800, first_tag=1000, num_bytes=100)
    tagged.check(loaded.sample(800))
    check_consistent(loaded)


def test_rows_of_a_loaded_replay_end_with_their_frames_wherever_its_ring_went_on(tmp_path):
    stack, episode, capacity = 4, 7, 17  # the first rows of an episode end with one frame, that of the reset
    for num_rows in range(capacity, capacity + episode):
        steps = list(pixel_steps(np.random.default_rng(0), num_rows + capacity, 1, stack, episode=episode))
        replay = pixel_replay(capacity, stack)
        writer = replay.writer()
        for step in steps[:num_rows]:
            writer.add(**step)
        replay.save(tmp_path / "replay")
        loaded = Replay.load(tmp_path / "replay")
        writer = loaded.writer()
        for step in steps[num_rows:]:
            writer.add(**step)
            check_consistent(loaded)


def test_a_loaded_row_never_shows_the_frames_of_windows_that_are_open(tmp_path):
    capacity, stack, num_step = 64, 2, 3
    replay = pixel_replay(capacity, stack, num_step=num_step)
    rng = np.random.default_rng(0)
    *others, end = pixel_steps(rng, capacity - 1, 1, stack)
    begin = list(pixel_steps(rng, 4, 1, stack))  # two rows, in the last slot and in the first
    writer = replay.writer()
    for step in [*others, {**end, "truncated": np.ones(1, bool)}, *begin]:
        writer.add(**step)
    newest = replay.read(replay.all_keys()[-1:]).data["obs"]
    replay.save(tmp_path / "replay")
    loaded = Replay.load(tmp_path / "replay")
    (key,) = loaded.all_keys()[-1:]
    writer, num_envs = loaded.writer(), loaded._table.num_frames // (stack + num_step)
    for step in pixel_steps(rng, capacity + num_step - 2, 1, stack):  # all rows but that one are overwritten
        writer.add(**step)
    many = loaded.writer(num_envs)
    for _ in range(num_step - 1):
        for step in pixel_steps(rng, 1, num_envs, stack):
            many.add(**step)  # its frames are taken, and no row is overwritten
    sample = loaded.read(np.array([key]))
    assert sample.weights == 0 or (sample.data["obs"] == newest).all()


def test_a_live_sharing_replay_is_saved_with_whole_rows(tmp_path):
    tagged, stop = TaggedStacks(200, stack=2), threading.Event()
    replay = Replay(3000, tagged.spec, frame_stack=2)
    write_rows(replay, 3000, num_bytes=200)

    def write():
        first = 1
        while not stop.is_set():
            write_rows(replay, 512, first_tag=first << 8, num_envs=64, num_bytes=200)
            first += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(8):
            replay.save(tmp_path / f"{number}")
    finally:
        stop.set()
        thread.join()
    for number in range(8):
        loaded = Replay.load(tmp_path / f"{number}")
        assert 1500 <= len(loaded) <= 3000
        check_consistent(loaded)
        tagged.check(loaded.sample(1024, num_batches=3, mode="iid"))


def test_rows_that_refer_to_frames_the_file_does_not_hold_are_refused(tmp_path, monkeypatch):
    replay = pixel_replay(100, 2)
    writer = replay.writer(1)
    for step in pixel_steps(np.random.default_rng(0), 50, 1, 2):
        writer.add(**step)
    blocks = FramesOut.blocks
    monkeypatch.setattr(FramesOut, "blocks", lambda self: (frames[:-1] for frames in blocks(self)))
    replay.save(tmp_path / "replay")
    with pytest.raises(FileFormatError, match="frames that are not there"):
        Replay.load(tmp_path / "replay")


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ({"obs": ((84, 84), "uint8")}, {"frame_stack": 4}, r"'obs': expected a leading axis of frame_stack=4 .*84, 84"),
        ({"obs": ((), "uint8")}, {"frame_stack": 2}, "leading axis of frame_stack=2"),
        (
            {"obs": {"image": ((4, 8, 8), "uint8"), "place": ((3,), "float32")}},
            {"frame_stack": 4},
            r"'obs/place': .*, got shape \[3\]; .* or declare what is no stack beside obs, with its next_ form",
        ),
        (
            {"obs": {"a": ((4, 3), "uint8"), "b": ((3,), "uint8")}},
            {"frame_stack": 4},
            "'obs/b': expected a leading axis",
        ),
        ({"x": ((), "uint8")}, {"share_next_obs": True}, 'expected "obs" to share between steps, got only x'),
        ({"x": ((4,), "uint8")}, {"frame_stack": 4}, 'expected "obs"'),
        ({"obs": ((0,), "uint8")}, {"frame_stack": 0}, "frame_stack: expected an integer in 1..256, got 0"),
        ({"obs": ((300,), "uint8")}, {"frame_stack": 300}, "frame_stack: expected an integer in 1..256, got 300"),
        ({"obs": ((2,), "uint8")}, {"frame_stack": "2"}, "frame_stack"),
        ({"obs": ((2,), "uint8")}, {"frame_stack": True}, "frame_stack"),
        ({"obs": ((2,), "uint8")}, {"share_next_obs": True, "capacity": 2**32 - 1}, r"only 2\^32 - 2 are possible"),
    ],
)
def test_settings_of_sharing_that_do_not_fit_are_refused(spec, options, message):
    with pytest.raises(InvalidInput, match=message):
        Replay(**({"capacity": 8, "spec": spec} | options))


def test_more_open_windows_than_frames_are_refused():
    replay = pixel_replay(10, 2, num_step=50)
    with pytest.raises(InvalidInput, match=r"windows of 20 .* hold up to 1040 frames, but this replay has 218; use"):
        replay.writer(20)
    replay.writer(4)
    pixel_replay(1, 2).writer(1000)  # without windows, any number goes in parts


@pytest.mark.parametrize("settings", [{}, {"num_step": 3}, {"sequence": Sequences(length=5, burn_in=1)}], ids=str)
@pytest.mark.parametrize("stack", [1, 4])
def test_observations_that_follow_each_other_need_not_be_compared(stack, settings):
    replays = [pixel_replay(200, stack, seed=3, **settings) for _ in range(2)]
    writers = replays[0].writer(2), replays[1].writer(2, check_obs=False)
    for t, step in enumerate(pixel_steps(np.random.default_rng(0), 400, 2, stack, episode=23)):  # often round the ring
        for writer in writers:
            writer.add(**step)
        assert frames_taken(replays[1]) == frames_taken(replays[0])
        if t > 30 and t % 20 == 19:
            num_rows = min(16, len(replays[0]))
            assert_equal_samples(replays[1].sample(num_rows), replays[0].sample(num_rows))
    check_consistent(replays[1])


def test_a_writer_that_may_believe_reads_new_frames_only_and_each_episodes_first_observation():
    replay = pixel_replay(100, 3)
    writer = replay.writer(1, check_obs=False)
    steps = list(pixel_steps(np.random.default_rng(0), 6, 1, 3, episode=3))
    for step in steps:
        told = {**step, "next_obs": step["next_obs"].copy(), "obs": step["obs"].copy()}
        told["next_obs"][:, :-1] = 0  # believed to be those of obs
        if step["number"][0] % 3:
            told["obs"][:] = 0  # believed to be the last next_obs
        writer.add(**told)
    data = replay.sample(6).data  # rows of equal priority: each of them
    assert sorted(data["number"]) == list(range(6))
    for i, number in enumerate(data["number"]):
        np.testing.assert_array_equal(data["obs"][i], steps[number]["obs"][0])
        np.testing.assert_array_equal(data["next_obs"][i], steps[number]["next_obs"][0])


def test_where_the_frames_of_an_open_episode_were_overwritten_its_observation_is_stored_anew():
    replay = pixel_replay(64, 4)
    waiting, busy = (replay.writer(1, check_obs=False) for _ in range(2))
    steps = list(pixel_steps(np.random.default_rng(0), 2, 1, 4))
    waiting.add(**steps[0])
    for step in pixel_steps(np.random.default_rng(1), 400, 1, 4):
        busy.add(**{**step, "number": step["number"] + 1000})
    waiting.add(**steps[1])
    data = replay.sample(len(replay)).data
    (found,) = data["obs"][data["number"] == 1]
    np.testing.assert_array_equal(found, steps[1]["obs"][0])
