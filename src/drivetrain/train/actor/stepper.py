"""What an actor's loop asks of whatever steps its environments: one interface, two ways.

Stepper
|-- actor.Actor               Gymnasium environments, one step of each at a time
`-- fused.actor.FusedActor    a compiled simulator, a grant's steps of all at a time
"""

from typing import Protocol

from drivetrain.train.episode import Episode
from drivetrain.train.normalization import Moments


class Stepper(Protocol):
    """Environments of one actor, exploring; writes what happens in them."""

    @property
    def moments(self) -> Moments | None:
        """What was seen so far, for normalisation; None where nothing is."""
        ...

    @property
    def steps_per_call(self) -> int:
        """The most that `step` takes at once, over all environments."""
        ...

    def step(self, num_steps: int, start: int, /) -> list[Episode]:
        """Take so many steps, from the run's step `start`; write the transitions.

        Args:
            num_steps: `steps_per_call`, or fewer, which happens at the very end of a run.
            start: Of the first of them.

        Returns:
            The episodes that ended.
        """
        ...

    def close(self) -> None:
        """Release the environments."""
        ...
