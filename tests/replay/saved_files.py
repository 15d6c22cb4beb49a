"""Replays to save, and what a file of one holds."""

import contextlib
import threading

import numpy as np
from children import write_rows

from drivetrain.replay import Replay, files
from drivetrain.replay.inspection import inspect
from drivetrain.replay.testing import TaggedRows, TaggedStacks, check_consistent

TAGGED = TaggedRows(16)
SHARING = {"share_next_obs": True, "frame_stack": 3}


def tagged_replay(capacity=400, num_rows=400, **options):
    replay = Replay(capacity, TAGGED.spec, **options)
    write_rows(replay, num_rows, num_bytes=16)
    return replay


def stacked_replay(capacity=400, num_rows=400, num_bytes=16, **options):
    replay = Replay(capacity, TaggedStacks(num_bytes, stack=3).spec, **SHARING, **options)
    write_rows(replay, num_rows, num_bytes=num_bytes)
    return replay


@contextlib.contextmanager
def others_at_work(replay, num_bytes):
    """A thread writes, and another one samples and updates priorities, until the block ends."""
    stop = threading.Event()

    def write():
        first = 10**6
        while not stop.is_set():
            write_rows(replay, 512, first_tag=first, num_envs=64, num_bytes=num_bytes)
            first += 10**4

    def learn():
        while not stop.is_set():
            sample = replay.sample(64)
            replay.update_priorities(sample.keys, sample.weights * 3)

    threads = [threading.Thread(target=target) for target in (write, learn)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def num_parts(path):
    return len(inspect(path).parts)


def contents(replay):
    """What tells one loaded replay from another: counters, priorities oldest first, and what it draws next."""
    stats = replay._table.stats()
    kept = [stats[name] for name in ("size", "max_priority", "random_block", "num_inserted", "unit_exponent")]
    keys = replay.all_keys()
    priorities = replay.priorities(keys) if replay._settings.prioritized else np.zeros(len(keys))
    samples = [replay.sample(len(replay), mode=mode) for mode in ("stratified", "iid", "iid", "iid")]
    return {
        "counters": kept,
        "alpha": replay.alpha,
        "priorities": priorities.tolist(),
        "drawn": [sample.map(np.ndarray.tolist) for sample in samples],
    }


def contents_of(path):
    with Replay.load(path) as replay:
        check_consistent(replay)
        return contents(replay)


def assert_loads_as_saved_whole(path, replay):
    """The file holds what a whole save of the same replay holds."""
    whole = path.with_name("whole")
    settings = {**replay._settings.to_json(), "alpha": replay.alpha}
    files.save(whole, replay._table, settings, replay._schema, None)
    assert contents_of(path) == contents_of(whole)
    whole.unlink()
