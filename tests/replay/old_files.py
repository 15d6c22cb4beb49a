"""Replay files as older versions of drivetrain wrote them: the formats that are still read."""

import json
import struct
import zlib

import numpy as np

from drivetrain.replay._native import ROW_HEADER_NBYTES
from drivetrain.replay.files.frames import refs_of


def write_old_file(path, replay, version):
    """Write a full replay of at most 1,024 rows in the format of version 1 or 2, in two blocks."""
    stats, settings = replay._table.stats(), replay._settings.to_json()
    if version == 1:
        settings = {name: settings[name] for name in ("capacity", "prioritized", "alpha", "num_step", "gamma", "seed")}
        settings["schema"] = replay._schema.to_json()
    state = {name: stats[name] for name in ("max_priority", "random_block", "num_inserted")}
    header = json.dumps({"settings": settings, "state": state}).encode()
    data = struct.pack("<8sIII", b"DRVTRPLY", version, len(header), zlib.crc32(header)) + header
    numbers = {}
    for first, stop in ((stats["next_slot"], replay.capacity), (0, stats["next_slot"])):
        if first < stop:
            data += _block(replay, first, stop, numbers)
    data += struct.pack("<I", 0)
    path.write_bytes(data + struct.pack("<I", zlib.crc32(data)))


def _block(replay, first, stop, numbers):
    count, schema = stop - first, replay._schema
    rows = np.empty((count, schema.row_stride - ROW_HEADER_NBYTES), np.uint8)
    leaves, generations = np.empty(count, np.float32), np.empty(count, np.uint32)
    replay._table.export_rows(first, replay.alpha, rows, leaves, generations)
    assert (generations > 0).all()
    data = struct.pack("<I", count)
    if schema.frame_stack:
        refs = refs_of(rows, schema)
        new = np.setdiff1d(refs, list(numbers)).astype(np.uint32)
        frames = np.empty((len(new), schema.frame_stride), np.uint8)
        replay._table.export_frames(new, frames, np.empty(len(new), np.uint32))
        numbers.update({slot: len(numbers) + at for at, slot in enumerate(new.tolist())})
        refs[:] = np.vectorize(numbers.get)(refs)
        data += struct.pack("<I", len(new)) + frames.tobytes()
    return data + rows.tobytes() + leaves.tobytes()
