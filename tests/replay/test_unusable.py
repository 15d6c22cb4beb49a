"""A replay that cannot be used any more, or not from here, says so whatever is asked of it."""

import threading

import numpy as np
import pytest
from filled import add_rows, filled_replay

from drivetrain.core.errors import Closed, InvalidInput, SegmentError
from drivetrain.replay import Replay, Sample, _native


@pytest.mark.parametrize("shared", [True, False])
def test_a_closed_replay_says_so(shared):
    with filled_replay(8, shared=shared) as replay:
        writer, sample = replay.writer(1), replay.sample(4)
    replay.close()
    one = np.zeros(1, bool)
    for call in (
        lambda: replay.sample(1),
        lambda: replay.update_priorities(sample.keys, sample.weights),
        lambda: writer.add(x=one.view(np.uint8), reward=np.zeros(1), terminated=one, truncated=one),
        lambda: replay.writer(),
        lambda: replay.num_inserted,
        lambda: len(replay),
    ):
        with pytest.raises(Closed, match="closed"):
            call()
    with pytest.raises(SegmentError):
        replay.handle()
    assert isinstance(sample, Sample)
    assert sample.weights.max() == 1.0  # samples are the caller's own


def test_a_writer_used_by_two_threads_at_once_is_refused_and_stays_whole():
    num_envs = 2**14
    replay = Replay(2**15, {"obs": ((64,), "uint8")})
    writer, refusals, done = replay.writer(num_envs), [], []
    no = np.zeros(num_envs, bool)
    obs = np.zeros((num_envs, 64), np.uint8)
    values = {"obs": obs, "next_obs": obs, "reward": np.zeros(num_envs), "terminated": no, "truncated": no}

    def hammer():
        for _ in range(50):
            try:
                writer.add(**values)
                done.append(1)
            except InvalidInput as error:
                refusals.append(str(error))

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) + len(refusals) == 200
    assert all("writer of its own" in message for message in refusals)
    assert replay.num_inserted == len(done) * num_envs
    assert replay._table.is_consistent()


def test_every_call_says_when_the_lock_cannot_be_taken_any_more(tmp_path):
    replay = filled_replay(8, shared=True)
    sample = replay.sample(4)
    replay.save(tmp_path / "whole")
    owner = np.frombuffer(replay._segment.payload, np.int32, count=1, offset=_native.LOCK_OFFSET + 8)
    owner[0] = 2**31 - 2  # what glibc writes when a holder died and nobody repaired (PTHREAD_MUTEX_NOTRECOVERABLE)
    for call in (
        lambda: len(replay),
        lambda: replay.num_inserted,
        lambda: replay.sample(4),
        lambda: replay.update_priorities(sample.keys, sample.weights),
        lambda: add_rows(replay, 1),
        lambda: replay.save(tmp_path / "broken"),
        lambda: replay._table.restore(1.0, 1, 0, 0),
        lambda: replay._table.export_rows(0, 0.6, np.zeros((1, 99), np.uint8), np.zeros(1, "f4"), np.zeros(1, "u4")),
    ):
        with pytest.raises(SegmentError, match="lock of this replay segment is broken"):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]
