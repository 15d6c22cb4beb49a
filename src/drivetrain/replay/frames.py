"""Frames: how many a replay holds, and how they go to a file and come back.

    add ──▶ frames, each once ◀── slots in rows ──▶ sample          (cpp/include/drivetrain/frames.hpp)

A file numbers frames in the order in which it holds them; its rows refer to these numbers.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import _native, checks
from drivetrain.replay.schema import Schema

_NO_FRAME = np.uint32(2**32 - 1)  # in a padded sequence; as slot and as key
MAX_STACK = 256  # a lock hold takes at least the two stacks of one environment, and at most 1,024 frames


def stack_of(share_next_obs: Any, frame_stack: Any) -> int:
    """Frames per observation, 0 where rows hold their observations themselves.

    Raises:
        InvalidInput: `frame_stack` is no number of frames.
    """
    stack = checks.require_int("frame_stack", frame_stack, least=1, most=MAX_STACK)
    return stack if share_next_obs or stack > 1 else 0


def num_frames(num_steps: int, stack: int, window: int) -> int:
    """Frames held for rows that begin `num_steps` steps apart in all: one per step, one more per 16
    steps for the first stacks of episodes, and the stacks and open windows of a few environments.

    Raises:
        InvalidInput: There would be more than rows can refer to.
    """
    frames = num_steps + num_steps // 16 + max(64, 4 * (stack + window))
    if frames >= 2**32 - 1:
        raise InvalidInput(
            f"capacity: its {num_steps} steps share {frames} frames, but only 2^32 - 2 are possible; use less"
        )
    return frames


def require_room(num_envs: int, stack: int, window: int, count: int) -> None:
    """Whether the open windows of a writer, of so many steps, leave a frame to others.

    Raises:
        InvalidInput: Frames would be overwritten before their rows are whole; no row would ever come.
    """
    held = num_envs * (window + stack)
    if stack and window > 1 and held > count:
        raise InvalidInput(
            f"num_envs: the open windows of {num_envs} environments ({window} steps, {stack} frames each) hold "
            f"up to {held} frames, but this replay has {count}; use a larger capacity or fewer environments"
        )


class FramesOut:
    """Rows and frames on their way to a file; each frame goes once."""

    def __init__(self, table: _native.Table, schema: Schema) -> None:
        self._table, self._schema = table, schema
        count = table.num_frames
        self._numbers = np.zeros(count, np.uint32)  # in the file, by slot
        self._generations = np.zeros(count, np.uint32)  # of the frame that has this number; 0: none
        self._num_written = 0

    def block(
        self, first: int, rows: npt.NDArray[np.uint8], leaves: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint8]]:
        """Fill in rows and leaves of slots `first` onwards, with numbers for references.

        Returns which of them are whole rows, and the frames that must come before them in the file.
        A row that is overwritten again and again meanwhile is left out, as one being written is.
        """
        refs = refs_of(rows, self._schema)
        whole, complete, slots, frames, generations = self._copied(first, rows, leaves)
        for _ in range(3):
            if not complete:
                whole, complete, slots, frames, generations = self._copied(first, rows, leaves)
        new = np.isin(slots, refs[whole]) & (self._generations[slots] != generations)
        next_frame = self._table.stats()["next_frame"]
        age = (slots.astype(np.int64) - next_frame) % len(self._numbers)
        order = np.flatnonzero(new)[np.argsort(age[new], kind="stable")]  # oldest first
        self._numbers[slots[order]] = self._num_written + np.arange(len(order), dtype=np.uint32)
        self._generations[slots[order]] = generations[order]
        self._num_written += len(order)
        some = refs != _NO_FRAME
        refs[some] = self._numbers[refs[some]]
        return whole, frames[order]

    def _copied(
        self, first: int, rows: npt.NDArray[np.uint8], leaves: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.bool_], bool, npt.NDArray[np.uint32], npt.NDArray[np.uint8], npt.NDArray[np.uint32]]:
        """Copies rows and their frames: which rows are whole, whether none was lost to a change
        meanwhile, and slots, bytes and generations of the frames.
        """
        before, after = np.empty(len(rows), np.uint32), np.empty(len(rows), np.uint32)
        self._table.export_rows(first, rows, leaves, before)
        slots = np.unique(refs_of(rows, self._schema)[before > 0])
        slots = slots[slots != _NO_FRAME]
        frames = np.empty((len(slots), self._schema.frame_stride), np.uint8)
        generations = np.empty(len(slots), np.uint32)
        self._table.export_frames(slots, frames, generations)
        self._table.export_generations(first, after)
        whole = (before > 0) & (after == before)  # then these were its frames, unchanged
        return whole, bool((whole == (before > 0)).all()), slots, frames, generations


class FramesIn:
    """Frames coming back from a file, and the keys by which rows refer to them now."""

    def __init__(self, table: _native.Table, schema: Schema) -> None:
        self._table, self._schema = table, schema
        self._keys = np.empty(0, np.uint64)

    def add(self, frames: npt.NDArray[np.uint8]) -> None:
        """Store the next frames of the file."""
        keys = np.empty(len(frames), np.uint64)
        self._table.import_frames(frames, keys)
        self._keys = np.concatenate([self._keys, keys])

    def keys_of(self, rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
        """The keys `[count, num_refs]` of the frames of raw rows.

        Raises:
            IndexError: They refer to frames that the file has not held so far.
        """
        refs = refs_of(rows, self._schema)
        keys = np.full(refs.shape, _NO_FRAME, np.uint64)
        keys[refs != _NO_FRAME] = self._keys[refs[refs != _NO_FRAME]]
        return keys


def refs_of(rows: npt.NDArray[np.uint8], schema: Schema) -> npt.NDArray[np.uint32]:
    """The references in raw rows, a view `[count, num_refs]`, behind the link of their list (8 bytes)."""
    return rows.view(np.uint32)[:, 2 : 2 + schema.num_refs]
