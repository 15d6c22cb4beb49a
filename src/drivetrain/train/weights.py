"""The latest weights, from the learner to everybody: a broadcast of one flat vector.

    | int64 updates behind these weights | float32[P] |

Readers never wait and never see a half-written vector; they may skip versions.
"""

import numpy as np
from numpy.typing import NDArray

from drivetrain.core._native import Broadcast
from drivetrain.core.segments import Segment, SegmentHandle

_HEAD_NBYTES = 8


class Weights:
    """One process's view of the weights channel, with a private copy of the latest it has read.

    Args:
        segment: Of kind "weights".
        num_parameters: Length of the vector.
    """

    def __init__(self, segment: Segment, num_parameters: int) -> None:
        nbytes = _HEAD_NBYTES + 4 * num_parameters
        self._segment = segment
        self._channel = Broadcast(segment.payload, 0, nbytes)
        self._message = np.zeros(nbytes, np.uint8)
        self._head: NDArray[np.int64] = self._message[:_HEAD_NBYTES].view(np.int64)
        self._version = 0
        self.vector: NDArray[np.float32] = self._message[_HEAD_NBYTES:].view(np.float32)
        """The private copy; `refresh` overwrites it in place."""

    @classmethod
    def create(cls, num_parameters: int) -> "Weights":
        """An empty channel owned by this process."""
        nbytes = Broadcast.nbytes_for(_HEAD_NBYTES + 4 * num_parameters)
        return cls(Segment.create("weights", nbytes), num_parameters)

    @classmethod
    def attach(cls, handle: SegmentHandle, num_parameters: int) -> "Weights":
        """A view of another process's channel."""
        return cls(Segment.attach(handle, "weights"), num_parameters)

    def handle(self) -> SegmentHandle:
        """What another process attaches by."""
        return self._segment.handle()

    def close(self) -> None:
        """Let go of the memory; this view cannot be used afterwards."""
        self._segment.close()

    @property
    def num_updates(self) -> int:
        """Updates behind the private copy."""
        return int(self._head[0])

    def publish(self, vector: NDArray[np.float32], num_updates: int) -> None:
        """Make a vector the latest. One process at a time: the supervisor first, then the learner."""
        self._head[0] = num_updates
        self.vector[:] = vector
        self._version = self._channel.publish(self._message.data)

    def refresh(self) -> bool:
        """Copy the latest weights if they are newer than the private copy; whether they were."""
        if self._channel.version == self._version:
            return False
        self._version = self._channel.read(self._message.data)
        return True
