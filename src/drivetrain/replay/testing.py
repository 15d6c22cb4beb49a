"""Checkers for anyone's replay set-up: rows whose every byte follows from one number, a tag.

A torn row, mixed from two writes, or one never written shows up in `TaggedRows.check`, whoever
wrote, crashed or sampled meanwhile. The tests of drivetrain use it; so can a program of yours.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.replay.buffer import Replay
from drivetrain.replay.sample import Sample


class TaggedRows:
    """Makes steps from tags and checks that sampled rows are such steps, whole.

    Use with `num_step=1`, where a row is one step.

    Args:
        num_bytes: Size of the observation in bytes: the larger, the easier to tear.

    Example:
        tagged = TaggedRows(256)
        replay = Replay(1024, tagged.spec, shared=True)
        replay.writer(8).add(**tagged.step(np.arange(8)))
        tagged.check(replay.sample(8))
    """

    def __init__(self, num_bytes: int = 64) -> None:
        self.num_bytes = num_bytes
        self.spec = {"tag": ((), "uint64"), "obs": ((num_bytes,), "uint8"), "action": ((3,), "int16")}

    def step(self, tags: npt.ArrayLike) -> dict[str, Any]:
        """One step of `len(tags)` environments, for `Writer.add`."""
        return self._fields(np.asarray(tags, np.uint64))

    def check(self, sample: Sample) -> None:
        """Compare every byte of a sample with what its tag implies.

        Raises:
            AssertionError: A row is torn, or was never written.
        """
        _check(sample, self._fields(sample.data["tag"].ravel()))

    def _fields(self, tags: npt.NDArray[np.uint64]) -> dict[str, npt.NDArray[Any]]:
        obs, ended = _bytes_of(tags, self.num_bytes), tags % np.uint64(5)
        return {
            "tag": np.ascontiguousarray(tags),
            "obs": obs,
            "next_obs": ~obs,
            "action": np.repeat(_bytes_of(tags, 2).view(np.int16), 3, axis=1),
            "reward": (tags % np.uint64(2**20)).astype(np.float32),
            "terminated": ended == 0,
            "truncated": ended == 1,
        }


class TaggedStacks:
    """The same for shared observations: episodes of stacked frames, all implied by tags.

    Tag `(stream << 32) + t` is step t of an environment's stream; episodes take `episode` steps. For
    chains of frames, give each environment a stream of its own and count t up.

    Args:
        num_bytes: Size of one frame in bytes.
        stack: Frames in an observation.
        episode: Steps in an episode.

    Example:
        tagged = TaggedStacks(256, stack=4)
        replay = Replay(1024, tagged.spec, frame_stack=4, shared=True)
        writer, streams = replay.writer(8), np.arange(8, dtype=np.uint64) << np.uint64(32)
        for t in range(100):
            writer.add(**tagged.step(streams + np.uint64(t)))
        tagged.check(replay.sample(8))
    """

    def __init__(self, num_bytes: int = 64, *, stack: int = 4, episode: int = 20) -> None:
        self.num_bytes, self.stack, self.episode = num_bytes, stack, episode
        self.spec = {"tag": ((), "uint64"), "obs": ((stack, num_bytes), "uint8")}

    def step(self, tags: npt.ArrayLike) -> dict[str, Any]:
        """One step of `len(tags)` environments, for `Writer.add`."""
        return self._fields(np.asarray(tags, np.uint64))

    def check(self, sample: Sample) -> None:
        """Compare every byte of a sample, of transitions or of sequences, with what its tags imply.

        Raises:
            AssertionError: A row is torn, shows a frame of another, or was never written.
        """
        tags, mask = sample.data["tag"], sample.data.get("mask")
        if mask is None:
            return _check(sample, self._fields(tags.ravel()))
        follows = (tags[..., 1:] == tags[..., :-1] + np.uint64(1)) | ~mask[..., 1:]
        if not (mask[..., 0].all() and follows.all()):
            raise AssertionError("a sequence is torn or unwritten: its steps do not follow one another")
        expected = {name: self._padded(array, mask) for name, array in self._fields(tags.ravel()).items()}
        return _check(sample, expected)

    def _fields(self, tags: npt.NDArray[np.uint64]) -> dict[str, npt.NDArray[Any]]:
        since_reset = (tags % np.uint64(2**32)) % np.uint64(self.episode)
        return {
            "tag": np.ascontiguousarray(tags),
            "obs": self._stacks(tags, since_reset),
            "next_obs": self._stacks(tags + np.uint64(1), since_reset + np.uint64(1)),
            "reward": (tags % np.uint64(2**20)).astype(np.float32),
            "terminated": since_reset == self.episode - 1,
            "truncated": np.zeros(len(tags), np.bool_),
        }

    def _padded(self, array: npt.NDArray[Any], mask: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        padded = array.copy()
        padded[~mask.ravel()] = 0
        return padded

    def _stacks(self, tags: npt.NDArray[np.uint64], since_reset: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
        # Frames of the episode only: a reset fills the stack with its first frame.
        ages = np.minimum(np.arange(self.stack, dtype=np.uint64)[::-1], since_reset[:, None])
        frames = _bytes_of((tags[:, None] - ages).ravel(), self.num_bytes)
        return frames.reshape(len(tags), self.stack, self.num_bytes)


def _bytes_of(tags: npt.NDArray[np.uint64], num_bytes: int) -> npt.NDArray[np.uint8]:
    """As many bytes per tag; Fibonacci hashing: neighbouring tags differ in about half of all bits."""
    words = (tags[:, None] + np.arange(-(-num_bytes // 8), dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(29)
    return np.ascontiguousarray(words.view(np.uint8)[:, :num_bytes])


def _check(sample: Sample, expected: dict[str, npt.NDArray[Any]]) -> None:
    num_rows = sample.keys.size
    if not num_rows:
        return
    for name, array in expected.items():
        drawn = sample.data[name].reshape(num_rows, -1)
        wrong = np.flatnonzero((drawn != array.reshape(num_rows, -1)).any(axis=1))
        if len(wrong):
            key = int(sample.keys.ravel()[wrong[0]])
            raise AssertionError(f"{len(wrong)} rows are torn or unwritten: field {name}, first key {key:#x}")


def check_consistent(replay: Replay) -> None:
    """Verify that sums, counts and generations of a replay agree; takes the lock meanwhile.

    Raises:
        AssertionError: They do not. Please report it.
    """
    if not replay._table.is_consistent():  # pyright: ignore[reportPrivateUsage]
        raise AssertionError("the sums of this replay do not match its leaves, or its counts or frames not its rows")
