"""Replays filled quickly, for tests that look at priorities and not at rows."""

import numpy as np

from drivetrain.replay import Replay
from drivetrain.replay._native import ROW_HEADER_NBYTES

ONE_BYTE = {"x": ((), "uint8")}
SLOT_MASK = np.uint64(2**32 - 1)


def filled_replay(capacity, *, num_rows=None, **options):
    """A replay with num_rows rows (default: full) in slots 0, 1, 2, ..."""
    replay = Replay(capacity, ONE_BYTE, **options)
    add_rows(replay, capacity if num_rows is None else num_rows)
    return replay


def add_rows(replay, num_rows):
    while num_rows > 0:
        num = min(num_rows, 2**20)
        no, yes = np.zeros(num, bool), np.ones(num, bool)
        replay.writer(num).add(x=no.view(np.uint8), reward=no.astype(np.float32), terminated=no, truncated=yes)
        num_rows -= num


def first_keys(capacity):
    """The keys of the first row of every slot: generation 2."""
    return np.arange(capacity, dtype=np.uint64) | np.uint64(2 << 32)


def slots_of(keys):
    return (keys.ravel() & SLOT_MASK).astype(np.int64)


def all_rows(replay, **options):
    """Each row once, in the order of slots; for rows that all have one priority."""
    sample = replay.sample(len(replay), **options)
    order = np.argsort(slots_of(sample.keys))
    return {name: values[order] for name, values in replay._schema.flatten(sample.data).items()}


def count_draws(replay, num_draws, **options):
    """How often each slot was drawn in at least num_draws draws."""
    counts, out = np.zeros(replay.capacity, np.int64), None
    batch_size = min(2**10, len(replay))
    for _ in range(-(-num_draws // 2**20)):
        out = replay.sample(batch_size, num_batches=2**20 // batch_size, out=out, **options)
        counts += np.bincount(slots_of(out.keys), minlength=replay.capacity)
    return counts


def leaves_of(replay):
    """The leaf of every slot; for replays of up to 1,024 rows."""
    row_nbytes = replay._schema.row_stride - ROW_HEADER_NBYTES
    leaves, generations = np.zeros(replay.capacity, np.float32), np.zeros(replay.capacity, np.uint32)
    replay._table.export_rows(0, replay.alpha, np.empty((replay.capacity, row_nbytes), np.uint8), leaves, generations)
    return leaves
