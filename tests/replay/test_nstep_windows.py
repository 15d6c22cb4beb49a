"""n-step windows by hand: full windows, tails at every kind of end, several environments."""

import numpy as np
import pytest
from filled import all_rows

from drivetrain.core.errors import SegmentError
from drivetrain.replay import Replay, Sequences

GAMMA = 0.5
SPEC = {"obs": ((), "int64"), "action": ((), "int32")}


def rows_of(episodes, num_step, *, gamma=GAMMA):
    """Rows as tuples, oldest first, of steps (obs, reward, next_obs, terminated, truncated) by environment."""
    num_envs, num_steps = len(episodes), len(episodes[0])
    replay = Replay(64, SPEC, num_step=num_step, gamma=gamma)
    writer = replay.writer(num_envs)
    for t in range(num_steps):
        obs, reward, next_obs, terminated, truncated = zip(*(episode[t] for episode in episodes), strict=True)
        writer.add(
            obs=np.array(obs),
            action=np.array(obs, np.int32) * 10,
            reward=np.array(reward, np.float64),
            next_obs=np.array(next_obs),
            terminated=np.array(terminated, bool),
            truncated=np.array(truncated, bool),
        )
    if len(replay) == 0:
        return []
    data = all_rows(replay)
    np.testing.assert_array_equal(data["action"], data["obs"] * 10)
    names = ("obs", "reward", "next_obs", "discount", "terminated", "truncated")
    return list(zip(*(data[name].tolist() for name in names), strict=True))


def episode(length, *, terminated=False, truncated=False, first=0):
    """Steps with reward 1, 2, 4, ... whose last one ends the episode if asked."""
    return [
        (first + t, 2.0**t, first + t + 1, terminated and t == length - 1, truncated and t == length - 1)
        for t in range(length)
    ]


def test_one_step_rows_are_the_steps():
    assert rows_of([episode(3, terminated=True)], 1) == [
        (0, 1.0, 1, 0.5, False, False),
        (1, 2.0, 2, 0.5, False, False),
        (2, 4.0, 3, 0.0, True, False),
    ]


def test_a_window_becomes_a_row_only_when_it_is_full():
    assert rows_of([episode(2)], 3) == []
    assert rows_of([episode(3)], 3) == [(0, 1 + 1 + 1.0, 3, 0.125, False, False)]
    assert rows_of([episode(4)], 3)[1] == (1, 2 + 2 + 2.0, 4, 0.125, False, False)


def test_termination_cuts_the_open_windows_and_stops_bootstrapping():
    assert rows_of([episode(4, terminated=True)], 3) == [
        (0, 3.0, 3, 0.125, False, False),
        (1, 6.0, 4, 0.0, True, False),
        (2, 4 + 4.0, 4, 0.0, True, False),
        (3, 8.0, 4, 0.0, True, False),
    ]


def test_truncation_cuts_the_open_windows_and_bootstraps_by_the_steps_they_have():
    assert rows_of([episode(4, truncated=True)], 3) == [
        (0, 3.0, 3, 0.125, False, False),
        (1, 6.0, 4, 0.125, False, True),
        (2, 8.0, 4, 0.25, False, True),
        (3, 8.0, 4, 0.5, False, True),
    ]


def test_both_at_once_count_as_termination():
    rows = rows_of([episode(2, terminated=True, truncated=True)], 3)
    assert rows == [(0, 2.0, 2, 0.0, True, True), (1, 2.0, 2, 0.0, True, True)]


@pytest.mark.parametrize("length", [1, 2, 4])
def test_episodes_shorter_than_the_window_yield_a_row_per_step(length):
    rows = rows_of([episode(length, truncated=True)], 5)
    assert [row[0] for row in rows] == list(range(length))
    assert [row[3] for row in rows] == [GAMMA ** (length - t) for t in range(length)]
    assert {row[2] for row in rows} == {length}


def test_windows_never_cross_episodes():
    steps = episode(2, terminated=True) + episode(3, first=100)
    rows = rows_of([steps], 3)
    assert rows == [
        (0, 2.0, 2, 0.0, True, False),
        (1, 2.0, 2, 0.0, True, False),
        (100, 3.0, 103, 0.125, False, False),
    ]


def test_environments_keep_windows_of_their_own():
    first = episode(4, first=10)
    second = [*episode(2, truncated=True, first=20), *episode(2, terminated=True, first=30)]
    rows = rows_of([first, second], 2)
    assert sorted(rows) == sorted(rows_of([first], 2) + rows_of([second], 2))


def test_gamma_of_zero_and_one():
    assert rows_of([episode(3)], 3, gamma=0.0) == [(0, 1.0, 3, 0.0, False, False)]
    assert rows_of([episode(3)], 3, gamma=1.0) == [(0, 7.0, 3, 1.0, False, False)]


def test_returns_add_up_in_double_precision():
    steps = [(t, 2.0**24 if t == 0 else 1.0, t + 1, False, False) for t in range(5)]
    assert rows_of([steps], 5, gamma=1.0)[0][1] == 2.0**24 + 4


def test_a_step_that_was_turned_down_leaves_the_windows_as_they_were():
    replay = Replay(8, SPEC, num_step=2, gamma=GAMMA)
    writer = replay.writer(1)
    step = {
        "obs": np.array([1]),
        "action": np.array([2], np.int32),
        "reward": np.array([1.0]),
        "next_obs": np.array([2]),
        "terminated": np.array([False]),
        "truncated": np.array([False]),
    }
    writer.add(**step)
    for _ in range(3):
        with pytest.raises(ValueError, match="obs"):
            writer.add(**{**step, "obs": np.array([[1]])})
    writer.add(**step)
    assert replay.sample(1).data["reward"].tolist() == [1.5]
    assert len(replay) == 1


def test_more_tails_at_once_than_the_ring_holds_leave_the_newest():
    replay = Replay(3, SPEC, num_step=5, gamma=1.0)
    writer = replay.writer(2)
    no = np.zeros(2, bool)
    for t in range(4):
        writer.add(
            obs=np.array([t, 10 + t]),
            action=np.zeros(2, np.int32),
            reward=np.ones(2, np.float32),
            next_obs=np.zeros(2, np.int64),
            terminated=no,
            truncated=no | (t == 3),
        )
    assert (len(replay), replay.num_inserted) == (3, 8)
    assert sorted(replay.sample(3).data["obs"]) == [11, 12, 13]


@pytest.mark.parametrize("share_next_obs", [False, True])
def test_fields_that_begin_with_next_are_those_of_the_last_step(share_next_obs, tmp_path):
    spec = {
        "obs": ((), "int64"),
        "action": ((), "int64"),
        "next_action": ((), "int64"),
        "next_legal": {"moves": ((2,), "bool"), "pair": [((), "int8"), ((), "int8")]},
    }
    replay = Replay(64, spec, num_step=3, share_next_obs=share_next_obs)
    writer = replay.writer()
    for t in range(5):
        writer.add(
            obs=np.array([t]),
            action=np.array([10 * t]),
            next_action=np.array([10 * (t + 1)]),
            next_legal={
                "moves": np.array([[t % 2, 1]], bool),
                "pair": (np.array([t], np.int8), np.array([-t], np.int8)),
            },
            reward=np.ones(1),
            next_obs=np.array([t + 1]),
            terminated=np.array([t == 4]),
            truncated=np.zeros(1, bool),
        )
    replay.save(tmp_path / "file")
    for rows in (replay, Replay.load(tmp_path / "file")):
        data = rows.read(rows.all_keys()).data
        last = np.array([2, 3, 4, 4, 4])
        np.testing.assert_array_equal(data["action"], [0, 10, 20, 30, 40])
        np.testing.assert_array_equal(data["next_action"], 10 * (last + 1))
        np.testing.assert_array_equal(data["next_obs"], last + 1)
        np.testing.assert_array_equal(data["next_legal"]["moves"][:, 0], last % 2 == 1)
        np.testing.assert_array_equal(data["next_legal"]["pair"], (last, -last))


@pytest.mark.parametrize("settings", [{"num_step": 5}, {"sequence": Sequences(length=4, period=2, initial=("x",))}])
def test_more_open_windows_than_memory_holds_are_refused_before_any_is_taken(monkeypatch, settings):
    """Memory that the system gives and has not is paid for with the process, when it is written to."""
    with Replay(4, {"x": ((2**20,), "uint8")}, **settings) as replay:
        monkeypatch.setattr("drivetrain.core.segments.available_memory", lambda: 2**28)
        told = r"windows of 128 environments needs \d+\.\d\d MiB, but 256\.00 MiB .*; have fewer environments, or sh"
        with pytest.raises(SegmentError, match=told):
            replay.writer(128)
        replay.writer(8)
