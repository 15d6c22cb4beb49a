"""`add` takes keywords without making a dict of them: however they come, the same rows."""

import gc
import inspect
import weakref

import numpy as np
import pytest

from drivetrain.core.errors import Closed, InvalidInput
from drivetrain.replay import Replay, Writer


def step(first, **more):
    return {
        "obs": np.arange(first, first + 4, dtype=np.float32),
        "next_obs": np.arange(first + 1, first + 5, dtype=np.float32),
        "reward": np.ones(4, np.float32),
        "terminated": np.zeros(4, bool),
        "truncated": np.zeros(4, bool),
        **more,
    }


def stored(replay):
    sample = replay.sample(len(replay))
    order = np.argsort(sample.keys & np.uint64(2**32 - 1))
    return {name: array[order].tolist() for name, array in sample.data.items()}


def test_keywords_in_any_order_interned_or_not_give_the_same_rows():
    replays = [Replay(32, {"obs": ((), "float32")}) for _ in range(4)]
    adds = [replay.writer(4).add for replay in replays]
    for first in (0, 10, 20):
        adds[0](**step(first))
        adds[1](**dict(reversed(step(first).items())))
        adds[2](**{"".join(list(name)): value for name, value in step(first).items()})  # strings of their own
        adds[3](**step(first, reward=np.ones(4, np.int64)))  # has to be made to fit
    rows = [stored(replay) for replay in replays]
    assert rows[0]["obs"] == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
    assert all(other == rows[0] for other in rows[1:])


def test_given_priorities_come_by_keyword():
    replay = Replay(8, {"obs": ((), "float32")}, alpha=1.0, initial_priority="given")
    replay.writer(4).add(**step(0, priority=np.array([1, 2, 3, 4], np.float32)))
    assert replay.priorities(replay.all_keys()) == pytest.approx([1, 2, 3, 4])


def test_what_does_not_fit_is_refused_and_adds_nothing():
    replay = Replay(8, {"obs": ((), "float32")})
    writer = replay.writer(4)
    for wrong in (step(0, extra=np.zeros(4)), step(0, obs=np.zeros(3, np.float32)), {"obs": np.zeros(4, np.float32)}):
        with pytest.raises(InvalidInput, match=r"add: expected exactly|field \"obs\": expected float32\[4\]"):
            writer.add(**wrong)
    with pytest.raises(TypeError):
        writer.add(step(0))
    assert len(replay) == 0
    replay.close()
    with pytest.raises(Closed):
        writer.add(**step(0))


def test_a_writer_is_freed_with_its_last_reference():
    replay = Replay(8, {"obs": ((), "float32")})
    gc.disable()
    try:
        writer = weakref.ref(replay.writer(4))
        assert writer() is None
    finally:
        gc.enable()


def test_the_function_says_what_it_takes():
    with Replay(4, {"x": ((), "int64")}) as replay:
        add = replay.writer().add
        assert str(inspect.signature(add)) == "(**step)"
        assert add.__doc__ == inspect.cleandoc(Writer.add.__doc__)
