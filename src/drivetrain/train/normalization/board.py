"""The moments of all environments in shared memory: each actor broadcasts its own, the learner reads all.

    | actor 0: table of its environments | actor 1 | ...     a `Broadcast` each

An actor killed half-way leaves what it had told before, and its successor goes on from there.
"""

import numpy as np
from numpy.typing import NDArray

from drivetrain.core._native import Broadcast
from drivetrain.core.segments import Segment, SegmentHandle
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.normalization.moments import empty_table, of_as_many
from drivetrain.train.normalization.scaling import Normalization

_KIND = "moments"


class MomentsBoard:
    """One process's view of the moments of all actors.

    Args:
        segment: Of kind "moments".
        config: The run's, for the actors and their environments.
        normalization: What is counted.
    """

    def __init__(self, segment: Segment, config: TrainConfig, normalization: Normalization) -> None:
        self._segment = segment
        self._tables = [empty_table(config.envs_per_actor, normalization.num_columns) for _ in range(config.num_actors)]
        nbytes = self._tables[0].nbytes
        places = range(0, len(segment.payload), Broadcast.nbytes_for(nbytes))
        self._channels = [
            Broadcast(segment.payload, place, nbytes) for place, _ in zip(places, self._tables, strict=False)
        ]

    @classmethod
    def create(cls, config: TrainConfig, interface: Interface) -> "MomentsBoard | None":
        """A new one owned by this process, on which nothing stands; None where nothing is normalised."""
        normalization = Normalization.of(config, interface)
        if not normalization.num_columns:
            return None
        nbytes = empty_table(config.envs_per_actor, normalization.num_columns).nbytes
        segment = Segment.create(_KIND, config.num_actors * Broadcast.nbytes_for(nbytes))
        return cls(segment, config, normalization)

    @classmethod
    def attach(cls, handle: SegmentHandle, config: TrainConfig, interface: Interface) -> "MomentsBoard":
        """A view of another process's board."""
        return cls(Segment.attach(handle, _KIND), config, Normalization.of(config, interface))

    def handle(self) -> SegmentHandle:
        """What another process attaches by."""
        return self._segment.handle()

    def publish(self, actor: int, table: NDArray[np.float64]) -> None:
        """Replace what an actor has told. One process at a time: the supervisor first, then the actor."""
        self._channels[actor].publish(table.data)

    def publish_all(self, table: NDArray[np.float64]) -> None:
        """Replace what all actors have told by the table of a checkpoint, of any number of environments."""
        table = of_as_many(table, sum(map(len, self._tables)))
        for actor, rows in enumerate(np.split(table, len(self._tables))):
            self.publish(actor, rows)

    def of(self, actor: int) -> NDArray[np.float64]:
        """What an actor has told last; zeros if it has not yet."""
        self._channels[actor].read(self._tables[actor].data)
        return self._tables[actor]

    def read(self) -> NDArray[np.float64]:
        """What all have told last, in the order of the environments: float64[num_envs, 1 + 2 W]."""
        return np.concatenate([self.of(actor) for actor in range(len(self._tables))])

    def close(self) -> None:
        """Let go of the memory; this view cannot be used afterwards."""
        self._channels = []
        self._segment.close()
