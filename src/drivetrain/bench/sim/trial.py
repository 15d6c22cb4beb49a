"""A case of speed of `drivetrain bench sim`: who takes part, and what each of them simulates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drivetrain.bench.process import Rival
from drivetrain.bench.report import Target
from drivetrain.bench.sim.scene import Scene


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A case of speed.

    Attributes:
        group: Heading of its table.
        name: In the table.
        scenes: Contender -> its process and what it simulates there.
        targets: What we aim at.
        by_clock: Per second of the clock, not of CPU time: for threads.
        repeats: How many times the plan's rounds: more where a neighbour on one core decides a round.
    """

    group: str
    name: str
    scenes: Mapping[str, tuple[Rival, Scene]]
    targets: Sequence[Target] = ()
    by_clock: bool = False
    repeats: int = 1

    @property
    def full_name(self) -> str:
        """As `--only` finds it."""
        return f"{self.group}, {self.name}"
