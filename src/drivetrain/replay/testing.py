"""Checkers for anyone's replay set-up: rows whose every byte follows from one number, a tag.

A torn row, mixed from two writes, or one never written shows up in `TaggedRows.check`, whoever
wrote, crashed or sampled meanwhile. The tests of drivetrain use it; so can a program of yours.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.replay.buffer import Replay, Sample


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
        data = {name: array.reshape(sample.keys.size, -1) for name, array in sample.data.items()}
        expected = self._fields(data["tag"][:, 0])
        for name, array in expected.items():
            wrong = np.flatnonzero((data[name] != array.reshape(len(array), -1)).any(axis=1))
            if len(wrong):
                key = int(sample.keys.ravel()[wrong[0]])
                raise AssertionError(f"{len(wrong)} rows are torn or unwritten: field {name}, first key {key:#x}")

    def _fields(self, tags: npt.NDArray[np.uint64]) -> dict[str, npt.NDArray[Any]]:
        # Fibonacci hashing: neighbouring tags differ in about half of all bits.
        words = (tags[:, None] + np.arange(-(-self.num_bytes // 8), dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        words ^= words >> np.uint64(29)
        obs = np.ascontiguousarray(words.view(np.uint8)[:, : self.num_bytes])
        ended = tags % np.uint64(5)
        return {
            "tag": np.ascontiguousarray(tags),
            "obs": obs,
            "next_obs": ~obs,
            "action": np.repeat(words[:, :1].astype(np.int16), 3, axis=1),
            "reward": (tags % np.uint64(2**20)).astype(np.float32),
            "terminated": ended == 0,
            "truncated": ended == 1,
        }


def check_consistent(replay: Replay) -> None:
    """Verify that sums, counts and generations of a replay agree; takes the lock meanwhile.

    Raises:
        AssertionError: They do not. Please report it.
    """
    if not replay._table.is_consistent():  # pyright: ignore[reportPrivateUsage]
        raise AssertionError("the sums of this replay do not match its leaves, or its counts not its rows")
