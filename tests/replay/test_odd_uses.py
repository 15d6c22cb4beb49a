"""What is done with a replay that it is not made for is told in a sentence with the remedy."""

import copy
import enum
import os
import pickle
import stat

import numpy as np
import pytest
from filled import filled_replay, first_keys

from drivetrain.core.errors import InvalidInput, SegmentError
from drivetrain.replay import Replay

SPEC = {"obs": ((4,), "float32")}


class Unreadable:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on what needs a gradient. Detach it first.")


def test_what_numpy_cannot_read_is_told_with_the_reason():
    replay = filled_replay(8)
    with pytest.raises(
        InvalidInput,
        match=r"priorities: expected an array .* got Unreadable \(.*Detach it first.\); .* by \.detach\(\)",
    ):
        replay.update_priorities(first_keys(2), Unreadable())
    with pytest.raises(InvalidInput, match="keys: expected an array that NumPy can read"):
        replay.priorities(Unreadable())
    with pytest.raises(
        InvalidInput, match=r"got Sample \(.*\); pass sample\.keys back unchanged"
    ):  # as TorchRL takes it
        replay.update_priorities(replay.sample(2), np.ones(2))


@np.errstate(all="raise")
def test_numbers_too_small_for_float32_are_zero_also_where_numpy_is_told_to_raise():
    tiny, step = np.array([1e-60, 1e-320]), {"terminated": np.ones(2, bool), "truncated": np.zeros(2, bool)}
    given = Replay(8, {"x": ((), "uint8")}, initial_priority="given", alpha=1.0)
    given.writer(2).add(x=np.zeros(2, np.uint8), reward=tiny.astype(np.longdouble), priority=tiny, **step)
    keys = given.update_fields(given.all_keys(), reward=tiny)
    assert given.read(keys).data["reward"].tolist() == [0, 0]
    assert given.update_priorities(keys, np.array([1e-10, 0.5], np.longdouble) ** 100) == 0
    given.set_alpha(1e-3, rescale=False)
    assert given.priority_stats().minimum_priority == 0
    goals = Replay(8, {"obs": dict.fromkeys(("achieved_goal", "desired_goal"), ((1,), "float32"))})
    obs = {name: np.zeros((2, 1), np.float32) for name in ("achieved_goal", "desired_goal")}
    reaching = goals.hindsight_writer(2, reward=lambda achieved, desired: np.full(len(achieved), 1e-60), num_goals=1)
    reaching.add(obs=obs, next_obs=obs, reward=tiny, **step)
    assert goals.read(goals.all_keys()).data["reward"].tolist() == [0] * 4


class Name(str, enum.Enum):  # noqa: UP042 - whose str() is not its text, as a StrEnum's is
    IID = "iid"
    BUFFER = "buffer"
    GIVEN = "given"
    SPEED = "speed"


def test_members_of_enumerations_that_are_texts_are_as_good_as_texts(tmp_path):
    """As modes and settings, and as keys of observations."""
    spec = {"obs": {Name.SPEED: ((), "float32"), "place": [((2,), "float32")]}}
    replay = Replay(8, spec, weights_by=Name.BUFFER, initial_priority=Name.GIVEN)
    one = np.ones(1, np.float32)
    obs = {Name.SPEED: one, "place": [np.ones((1, 2), np.float32)]}
    no = np.zeros(1, bool)
    replay.writer().add(obs=obs, next_obs=obs, reward=one, terminated=no, truncated=no, priority=one)
    assert replay.sample(1, mode=Name.IID).data["obs"][Name.SPEED] == 1
    replay.save(tmp_path / "replay")
    loaded = Replay.load(tmp_path / "replay")
    assert (loaded._settings.weights_by, loaded._settings.initial_priority) == ("buffer", "given")
    assert loaded.sample(1).data["obs"]["speed"] == 1


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_replay_that_is_to_be_copied_says_how_it_is_handed_out(copied):
    with pytest.raises(InvalidInput, match=r"cannot be pickled or copied; .* send replay\.handle\(\)"):
        copied(Replay(8, SPEC))


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_so_do_its_writers_and_prefetchers(copied):
    with filled_replay(8) as replay, replay.prefetch(4) as samples:
        for thing in (replay.writer(2), samples):
            with pytest.raises(InvalidInput, match=r"cannot be pickled or copied; send replay\.handle\(\)"):
                copied(thing)


def test_a_step_without_names_is_told_how_to_give_it():
    with pytest.raises(TypeError, match=r"by their names, as in add\(\*\*step\)"):
        Replay(8, SPEC).writer(2).add({"obs": np.zeros((2, 4), np.float32)})


def test_a_private_replay_has_no_handle_and_says_how_to_get_one():
    with pytest.raises(SegmentError, match="shared=True"):
        Replay(8, SPEC).handle()


@pytest.mark.parametrize("handle", [None, "handle", 3, b""])
def test_attach_takes_handles_only(handle):
    with pytest.raises(InvalidInput, match=r"replay\.handle\(\)"):
        Replay.attach(handle)


def test_ctrl_c_while_a_file_is_looked_at_leaves_no_descriptor_open(tmp_path, monkeypatch):
    def ctrl_c(mode):
        raise KeyboardInterrupt

    with filled_replay(8) as replay:
        replay.save(tmp_path / "replay")
    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patched:
        patched.setattr(stat, "S_ISREG", ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            Replay.load(tmp_path / "replay")
    assert os.listdir("/proc/self/fd") == before
