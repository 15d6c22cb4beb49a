"""Large samples are copied by several threads: the same samples, from threads that come and go with the replay."""

import contextlib
import os
import time
from pathlib import Path

import numpy as np
import pytest
from children import run_script
from filled import filled_replay

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Replay, Sequences

IMAGE = (48, 48)
BATCH = 512  # of these images: 2 MiB and more, in rows of pairs of more than 4 KB


def frames_of(num_rows, stack):
    return np.random.default_rng(3).integers(0, 256, (num_rows + stack, *IMAGE), np.uint8)


def images(num_rows, **settings):
    """A replay of random images, in episodes of 20 steps; with stacks, each the one before moved on."""
    stack = settings.get("frame_stack", 1)
    shape = IMAGE if stack == 1 else (stack, *IMAGE)
    replay = Replay(num_rows, {"obs": (shape, "uint8"), "action": ((), "int64")}, seed=3, **settings)
    frames = frames_of(num_rows, stack)
    writer = replay.writer()
    for t in range(num_rows):
        first, after = (frames[t + k : t + k + stack].reshape(1, *shape) for k in (0, 1))
        no, action = np.zeros(1, bool), np.full(1, t)
        ends = np.full(1, t % 20 == 19)
        writer.add(obs=first, action=action, next_obs=after, reward=np.ones(1), terminated=no, truncated=ends)
    return replay


def num_helpers():
    """Threads of this process that help with copies."""
    count = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            count += (task / "comm").read_text() == "drivetrain-pool\n"
    return count


def wait_for_no_helpers():
    """Threads that were joined may be listed for another moment."""
    deadline = time.monotonic() + 60
    while num_helpers() > 0 and time.monotonic() < deadline:
        os.sched_yield()
    assert num_helpers() == 0


@pytest.mark.parametrize(
    "settings",
    [{}, {"share_next_obs": True}, {"frame_stack": 4}, {"num_step": 3}, {"sequence": Sequences(length=5)}],
    ids=["pairs", "shared", "stacks", "n-step", "sequences"],
)
@pytest.mark.parametrize("num_threads", [2, 3, 8])
def test_any_number_of_threads_brings_the_same_samples(settings, num_threads):
    with images(700, **settings) as alone, images(700, **settings) as helped:
        batch = min(BATCH, len(alone))
        for num_batches in (None, 3):
            one = alone.sample(batch, num_batches=num_batches, num_threads=1)
            several = helped.sample(batch, num_batches=num_batches, num_threads=num_threads)
            for name, values in one.data.items():
                np.testing.assert_array_equal(several.data[name], values, err_msg=name)
            np.testing.assert_array_equal(several.keys, one.keys)
            np.testing.assert_array_equal(several.weights, one.weights)


@pytest.mark.parametrize("stack", [1, 3, 4])
@pytest.mark.parametrize("batch", [7, BATCH])  # 2,048 rows in one call: more than is kept in the caches
def test_large_rows_hold_what_was_added(stack, batch):
    frames = frames_of(600, stack)
    with images(600, frame_stack=stack) as replay:
        data = replay.sample(batch, num_batches=4, num_threads=3).data
    for field, ahead in (("obs", 0), ("next_obs", 1)):
        shown = data[field].reshape(-1, stack, *IMAGE)
        for k in range(stack):
            np.testing.assert_array_equal(shown[:, k], frames[data["action"].ravel() + k + ahead])


def test_threads_are_started_for_large_samples_and_end_with_the_replay():
    wait_for_no_helpers()
    with images(600) as replay:
        replay.sample(64, num_threads=3)
        replay.sample(BATCH, num_threads=1)
        assert num_helpers() == 0
        for _ in range(3):
            replay.sample(BATCH, num_threads=3)
        assert num_helpers() == 2
    wait_for_no_helpers()


@pytest.mark.parametrize("num_threads", [0, -1, 1025, "2", 1.5, True, None])
def test_a_number_of_threads_that_makes_no_sense_is_refused(num_threads):
    replay = filled_replay(16)
    with pytest.raises(InvalidInput, match=r"num_threads: expected an integer in 1\.\.1024, got"):
        replay.sample(8, num_threads=num_threads)


def test_a_numpy_integer_is_a_number_of_threads_too():
    assert len(filled_replay(16).sample(8, num_threads=np.int32(2)).keys) == 8


def test_prefetched_samples_are_the_same_as_well():
    with images(600) as alone, images(600) as ahead, ahead.prefetch(BATCH, num_threads=3) as samples:
        for _, sample in zip(range(3), samples, strict=False):
            expected = alone.sample(BATCH, num_threads=1)
            np.testing.assert_array_equal(sample.data["next_obs"], expected.data["next_obs"])


def test_forked_children_sample_alone_and_the_interpreter_ends_with_helpers_asleep():
    path = str(Path(__file__).parent)
    text = """
import os, sys
import numpy as np
from test_gather_threads import BATCH, images, num_helpers

replay = images(600)
expected = replay.sample(BATCH, num_threads=3).data
child = os.fork()
if child == 0:
    sample = replay.sample(BATCH, num_threads=3)
    assert num_helpers() == 0 and sample.data["obs"].any()
    replay.close()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
replay.sample(BATCH, num_threads=3)
print("done", num_helpers())
"""
    assert run_script(f"import sys; sys.path.insert(0, {path!r})\n" + text) == "done 2\n"
