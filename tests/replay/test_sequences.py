"""Sequences by hand: which windows an episode gives, what is in them, what is behind their end."""

import threading

import numpy as np
import pytest
from children import run_script, tags_at
from filled import slots_of

from drivetrain.core.errors import InvalidInput, NotEnoughData
from drivetrain.replay import Replay, Sequences
from drivetrain.replay.testing import TaggedStacks, check_consistent

SPEC = {"obs": ((2,), "int32"), "action": ((), "int64"), "state": ((3,), "float32")}


def filled(episodes, *, capacity=50, spec=SPEC, gamma=0.5, terminate=True, **settings):
    """One environment that goes through episodes of these lengths; action counts the steps of each."""
    replay = Replay(capacity, spec, gamma=gamma, sequence=Sequences(**{"initial": ("state",)} | settings))
    writer = replay.writer()
    for number, length in enumerate(episodes):
        for t in range(length):
            writer.add(
                obs=np.array([[number, t]], np.int32),
                action=np.array([t]),
                state=np.full((1, 3), 100 * number + t, np.float32),
                reward=np.array([t / 4]),
                next_obs=np.array([[number, t + 1]], np.int32),
                terminated=np.array([terminate and t == length - 1]),
                truncated=np.array([not terminate and t == length - 1]),
            )
    return replay


def windows(replay):
    """The actions of each row in order of insertion, without padding."""
    sample = replay.sample(len(replay))  # fresh rows weigh the same: equal parts give each once
    assert len(set(slots_of(sample.keys))) == len(replay)
    order = np.argsort(slots_of(sample.keys))
    data = {name: sample.data[name][order] for name in ("action", "mask")}
    return [row[mask].tolist() for row, mask in zip(data["action"], data["mask"], strict=True)]


@pytest.mark.parametrize(
    ("lengths", "episode", "expected"),
    [
        ({"length": 3}, 7, [[0, 1, 2], [3, 4, 5], [6]]),
        ({"length": 3}, 6, [[0, 1, 2], [3, 4, 5]]),
        ({"length": 4, "period": 2}, 7, [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6]]),
        ({"length": 4, "period": 2}, 6, [[0, 1, 2, 3], [2, 3, 4, 5]]),
        ({"length": 4, "period": 1}, 5, [[0, 1, 2, 3], [1, 2, 3, 4]]),
        ({"length": 2, "burn_in": 2, "period": 2}, 5, [[0, 1, 2, 3], [2, 3, 4]]),
        ({"length": 4}, 2, [[0, 1]]),
        ({"length": 4}, 4, [[0, 1, 2, 3]]),
        ({"length": 1}, 3, [[0], [1], [2]]),
    ],
)
def test_windows_begin_every_period_and_the_last_reaches_the_end(lengths, episode, expected):
    assert windows(filled([episode], **lengths)) == expected
    assert windows(filled([episode, episode], **lengths)) == expected * 2  # none crosses an end
    assert windows(filled([episode], terminate=False, **lengths)) == expected


@pytest.mark.parametrize("lengths", [(5, 0, 5), (5, 0, 3), (4, 3, 4), (4, 6, 2), (1, 2, 1)])
def test_every_step_is_in_a_row_and_all_but_the_first_beyond_a_burn_in(lengths):
    length, burn_in, period = lengths
    for episode in range(1, 30):
        rows = windows(filled([episode], length=length, burn_in=burn_in, period=period))
        assert sorted({t for row in rows for t in row}) == list(range(episode))
        assert sorted({t for row in rows for t in row[burn_in:]}) == list(range(burn_in, episode))


def test_a_row_is_there_only_when_its_window_is_full_or_its_episode_over():
    replay = filled([7], length=5, terminate=False)
    assert len(replay) == 2
    writer = replay.writer()
    step = {
        "obs": np.zeros((1, 2), np.int32),
        "action": np.zeros(1, np.int64),
        "state": np.zeros((1, 3), np.float32),
        "reward": np.zeros(1),
        "next_obs": np.zeros((1, 2), np.int32),
        "terminated": np.zeros(1, bool),
        "truncated": np.zeros(1, bool),
    }
    for t in range(5):
        assert len(replay) == 2, t
        writer.add(**step)
    assert len(replay) == 3
    with pytest.raises(NotEnoughData, match="a sequence appears when its 5 steps are there"):
        replay.sample(4)


def test_what_a_sequence_lacks_is_zero_and_masked():
    data = filled([2], length=4).sample(1).data
    assert data["mask"].tolist() == [[True, True, False, False]]
    assert data["obs"].tolist() == [[[0, 0], [0, 1], [0, 0], [0, 0]]]
    assert data["next_obs"].tolist() == [[[0, 1], [0, 2], [0, 0], [0, 0]]]
    assert data["action"].tolist() == [[0, 1, 0, 0]]
    assert data["reward"].tolist() == [[0.0, 0.25, 0.0, 0.0]]  # of each step, no returns
    assert data["discount"].tolist() == [[0.5, 0.0, 0.0, 0.0]]
    assert data["terminated"].tolist() == [[False, True, False, False]]
    assert not data["truncated"].any()


def test_slots_used_before_show_nothing_of_their_last_row():
    replay = filled([8, 8, 1], length=4, capacity=1)
    data = replay.sample(1).data
    assert data["mask"].tolist() == [[True, False, False, False]]
    for name in ("obs", "next_obs", "action", "reward", "discount"):
        assert not data[name][0, 1:].any(), name


def test_truncation_bootstraps():
    data = filled([2], length=4, terminate=False).sample(1).data
    assert data["discount"].tolist() == [[0.5, 0.5, 0.0, 0.0]]
    assert data["truncated"].tolist() == [[False, True, False, False]]


def test_initial_fields_are_those_of_the_first_step():
    sample = filled([7], length=4, period=2).sample(3)
    states = sample.data["state"][np.argsort(slots_of(sample.keys))]
    assert states.tolist() == [[0.0] * 3, [2.0] * 3, [4.0] * 3]
    per_step = filled([4], length=4, initial=()).sample(1).data
    assert per_step["state"][0, :, 0].tolist() == [0, 1, 2, 3]


def test_nested_initial_fields_are_named_by_their_group():
    spec = {"lstm": {"h": ((2,), "float32"), "c": ((2,), "float32")}, "x": ((), "int8")}
    replay = Replay(4, spec, sequence=Sequences(length=3, initial=("lstm",)))
    no = np.zeros(2, bool)
    writer = replay.writer(2)
    for t in range(3):
        lstm = {"h": np.full((2, 2), t, np.float32), "c": np.full((2, 2), -t, np.float32)}
        writer.add(lstm=lstm, x=np.full(2, t, np.int8), reward=np.zeros(2), terminated=no, truncated=no)
    data = replay.sample(2, num_batches=3).data
    assert data["lstm"]["h"].shape == (3, 2, 2)
    assert (data["lstm"]["h"] == 0).all()
    assert data["x"].shape == (3, 2, 3)
    assert (data["x"] == [0, 1, 2]).all()
    assert replay._table.num_frames == 0  # nothing to share without obs


def test_a_sequence_has_one_key_one_weight_and_one_priority():
    replay = filled([100], length=4, period=4)
    sample = replay.sample(8, beta=1.0)
    assert sample.keys.shape == sample.weights.shape == (8,)
    assert sample.data["obs"].shape == (8, 4, 2)
    replay.update_priorities(sample.keys, np.where(np.arange(8) == 3, 1e6, 0.0))
    again = replay.sample(16, mode="iid")
    counts = [(again.keys == key).sum() for key in sample.keys]
    assert np.argmax(counts) == 3
    assert replay.sample(16, out=again) is again


def test_rows_are_drawn_alike_when_few_slots_have_one():
    spec = {"obs": ((), "int64")}
    replay = Replay(600, spec, prioritized=False, sequence=Sequences(length=30, period=1), seed=3)
    writer, no = replay.writer(), np.zeros(1, bool)
    for t in range(60 * 30 * 20):  # episodes of one full window: 31 frames per row, and room for one per row
        obs = np.array([t])
        writer.add(obs=obs, reward=np.zeros(1), next_obs=obs + 1, terminated=np.array([t % 30 == 29]), truncated=no)
    num_rows = len(replay)
    assert num_rows < 0.05 * 600
    counts = np.zeros(600)
    for _ in range(200):
        sample = replay.sample(num_rows, num_batches=10, mode="iid")
        counts += np.bincount((sample.keys & np.uint64(2**32 - 1)).astype(int).ravel(), minlength=600)
    drawn = counts[counts > 0]
    expected = counts.sum() / num_rows
    assert len(drawn) == num_rows
    ratio = ((drawn - expected) ** 2 / expected).sum() / (num_rows - 1)
    assert ratio < 2.5, ratio  # chi-square with some 20 degrees of freedom: p < 1e-4 beyond


@pytest.mark.parametrize("stack", [1, 4])
def test_overlap_does_not_multiply_the_memory_of_observations(stack):
    spec, frame = {"obs": ((stack, 84, 84), "uint8"), "action": ((), "int64")}, 7104
    replay = Replay(100, spec, frame_stack=stack, sequence=Sequences(length=80, burn_in=40, period=40))
    frames = 100 * 40 + 100 * 40 // 16 + 4 * (stack + 120)
    assert replay._table.num_frames == frames
    per_row = 120 * (2 * stack * 4 + 8 + 4 + 4 + 1 + 1 + 1)
    assert replay.nbytes == pytest.approx(frames * (frame + 16) + 100 * per_row, rel=0.005)


def sequences_of_stacks(capacity, stack, *, num_bytes=60, **settings):
    tagged = TaggedStacks(num_bytes, stack=stack)
    sequence = Sequences(length=7, burn_in=2, period=3)
    replay = Replay(capacity, tagged.spec, frame_stack=stack, sequence=sequence, **settings)
    return tagged, replay


@pytest.mark.parametrize("prioritized", [True, False])
def test_saved_sequences_come_back(tmp_path, prioritized):
    tagged, replay = sequences_of_stacks(400, 3, prioritized=prioritized)
    writer = replay.writer(4)
    for t in range(300):
        writer.add(**tagged.step(tags_at(tagged, 0, 4, t)))
    replay.save(tmp_path / "replay")
    loaded = Replay.load(tmp_path / "replay")
    assert len(loaded) == len(replay)
    first, second = replay.sample(len(replay)).data, loaded.sample(len(loaded)).data
    assert sorted(map(bytes, first["tag"])) == sorted(map(bytes, second["tag"]))
    assert not first["mask"].all()
    tagged.check(loaded.sample(64, num_batches=4))
    check_consistent(loaded)


def test_threads_never_see_a_torn_sequence():
    tagged, replay = sequences_of_stacks(150, 2)
    errors = []

    def caught(function, *arguments):
        try:
            function(*arguments)
        except BaseException as error:
            errors.append(error)

    def write(seed):
        writer = replay.writer(8)
        for t in range(1200):
            writer.add(**tagged.step(tags_at(tagged, seed << 8, 8, t)))

    def learn():
        for _ in range(400):
            try:
                sample = replay.sample(16)
            except NotEnoughData:
                continue
            tagged.check(sample)
            replay.update_priorities(sample.keys, sample.weights)

    threads = [threading.Thread(target=caught, args=(write, seed)) for seed in (1, 2)]
    threads += [threading.Thread(target=caught, args=(learn,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    check_consistent(replay)


KILLS = """
from children import *
from drivetrain.replay import Sequences
stack = int(sys.argv[2])
tagged = TaggedStacks(700, stack=stack)
sequence = Sequences(length=7, burn_in=2, period=3)
replay = Replay(300, tagged.spec, frame_stack=stack, shared=True, prioritized=sys.argv[1] == "True", sequence=sequence)
write_rows(replay, 1500, num_bytes=700)
kill_at_random(replay, 5, num_kills=40, seconds=0.0, num_bytes=700)
check_consistent(replay)
assert len(replay) == 300 - in_flight(replay)
write_rows(replay, 3000, num_bytes=700)
data = replay.sample(64, num_batches=10).data
assert not (data["tag"] >> np.uint64(40)).any(), "rows of those before are left"
# An episode of 20 steps takes 21 frames and makes 5 rows.
assert len(replay) > replay._table.num_frames // 21 * 5 - 40, "orphaned slots or frames were not used again"
check_consistent(replay)
"""


@pytest.mark.whole
@pytest.mark.parametrize(("prioritized", "stack"), [(True, 1), (False, 4)])
def test_random_kills_tear_no_sequence(prioritized, stack):
    run_script(KILLS, prioritized, stack)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": 0}, r"Sequences.length: expected an integer in 1..100000, got 0"),
        ({"length": 2.5}, "Sequences.length"),
        ({"length": 4, "burn_in": -1}, "Sequences.burn_in"),
        ({"length": 4, "period": 0}, "Sequences.period: expected an integer in 1..[0-9]+, got 0"),
        ({"length": 4, "period": 5}, r"at most length \(4\), got 5: the steps between two windows would never"),
        ({"length": 4, "initial": "state"}, r'Sequences.initial: expected names such as \("state",\), got \'state\''),
        ({"length": 4, "initial": (3,)}, "Sequences.initial"),
    ],
)
def test_sequences_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InvalidInput, match=message):
        Sequences(**settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sequence": 80}, r"sequence: expected Sequences\(length=...\), got 80"),
        ({"num_step": 3}, "num_step: expected 1 with sequences, whose rewards are per step, got 3"),
        ({"sequence": Sequences(length=2, initial=("lstm",))}, "got 'lstm'; declared are obs, action, state"),
        ({"sequence": Sequences(length=2, initial=("obs",))}, "fields of the spec other than obs, got 'obs'"),
        ({"spec": {"mask": ((), "int8")}}, "'mask': this name is reserved with sequences"),
        ({"spec": {"obs": ((3,), "int8")}, "frame_stack": 4}, "leading axis of frame_stack=4"),
        ({"spec": {"x": ((), "int8")}, "share_next_obs": True}, 'expected "obs" to share'),
        ({"spec": {"x": ((1,) * 30, "int8")}}, "expected fewer than 30 axes, got 30"),
        ({"capacity": 2**31, "sequence": Sequences(length=80)}, r"only 2\^32 - 2 are possible"),
    ],
)
def test_settings_that_do_not_go_with_sequences_are_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        Replay(**{"capacity": 8, "spec": SPEC, "sequence": Sequences(length=2)} | changes)


def test_a_mask_is_an_ordinary_field_without_sequences():
    replay = Replay(8, {"mask": ((), "int8")})
    no = np.zeros(1, bool)
    replay.writer().add(mask=np.ones(1, np.int8), reward=np.zeros(1), terminated=no, truncated=no)
    assert replay.sample(1).data["mask"].tolist() == [1]


def test_more_environments_than_there_is_room_for_their_windows_are_refused():
    replay = Replay(2, {"obs": ((), "int8")}, sequence=Sequences(length=50))
    with pytest.raises(InvalidInput, match=r"windows of 10 environments \(50 steps, 1 frames each\) hold up to 510"):
        replay.writer(10)


def test_a_field_with_a_slash_in_its_key_is_kept_for_the_first_step_by_the_name_it_was_given():
    spec = {"obs": ((2,), "f4"), "state": {"walker/pos": ((2,), "f4"), "h": ((), "f4")}}
    replay = Replay(10, spec, sequence=Sequences(length=3, initial=("state/walker/pos",)))
    writer = replay.writer(1)
    for step in range(3):
        writer.add(
            obs=np.zeros((1, 2), "f4"), next_obs=np.zeros((1, 2), "f4"), reward=np.zeros(1),
            state={"walker/pos": np.full((1, 2), step, "f4"), "h": np.zeros(1, "f4")},
            terminated=np.zeros(1, bool), truncated=np.full(1, step == 2),
        )  # fmt: skip
    state = replay.sample(1).data["state"]
    assert (state["walker/pos"].tolist(), state["h"].shape) == ([[0.0, 0.0]], (1, 3))
    with pytest.raises(InvalidInput, match=r"got 'state/walke'.* declared are obs, state/walker/pos, state/h"):
        Replay(10, spec, sequence=Sequences(length=3, initial=("state/walke",)))
