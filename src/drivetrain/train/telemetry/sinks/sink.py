"""What a place for rows of metrics has to do.

Meter, evaluator, checkpoints -> row -> RUN/metrics.jsonl, the source -> every sink in turn
"""

from typing import Protocol

Row = dict[str, float]
"""Numbers by name, num_steps among them; those that a row has nothing to say about are absent."""


class Sink(Protocol):
    """One place, open while a run goes on."""

    @property
    def name(self) -> str:
        """What the user calls it."""
        ...

    def write(self, row: Row) -> None:
        """Add a row, which metrics.jsonl has by now; all of its numbers are finite.

        Raises:
            OSError: It cannot be added, and what was there is as it was.
        """
        ...

    def close(self) -> None:
        """Nothing more will come.

        Raises:
            OSError: What was given could not be kept to the end.
        """
        ...
