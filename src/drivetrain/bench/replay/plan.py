"""What `drivetrain bench replay` runs, and how much of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from drivetrain.bench.only import named
from drivetrain.bench.replay.groups import Group, all_cores_group, buffer_group, tree_group
from drivetrain.bench.replay.rounds import Measured
from drivetrain.bench.replay.scene_cases import actor_cases, contention_cases, throughput_cases
from drivetrain.bench.replay.scenes import Play, actors_and_learners, contention, throughput
from drivetrain.bench.report import Case

AsCases = Callable[[Play, Measured], list[Case]]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is run.

    Attributes:
        groups: Buffers and trees, one after the other.
        plays: Several on one buffer, each with what makes cases of it.
        num_rounds: How often everybody is timed at everything.
        slice_s: How long each time; plays have a time of their own.
    """

    groups: Sequence[Group]
    plays: Sequence[tuple[Play, AsCases]] = ()
    num_rounds: int = 7
    slice_s: float = 0.1

    def names(self) -> list[str]:
        """The headings of all groups of cases."""
        return [*(group.name for group in self.groups), *(play.group.name for play, _ in self.plays)]

    def only(self, asked: str) -> "Plan":
        """What is asked for by parts of its name.

        Raises:
            InvalidInput: A part is in no name.
        """
        names = named(self.names(), asked, kind="group of cases")
        return replace(
            self,
            groups=[group for group in self.groups if group.name in names],
            plays=[(play, as_cases) for play, as_cases in self.plays if play.group.name in names],
        )


def full_plan(processes: int) -> Plan:
    """Everything that the tables of the documentation show."""
    vectors = [buffer_group(layout, 2**e) for layout in ("obs 4", "obs 17") for e in (14, 17, 20)]
    images = ("84x84x4 pairs", "84x84x4 shared")
    frames = [make(layout, 2**13) for make in (buffer_group, all_cores_group) for layout in images]
    plays: list[tuple[Play, AsCases]] = [
        (throughput(processes), throughput_cases),
        (contention(), contention_cases),
        (actors_and_learners(processes), actor_cases),
    ]
    return Plan(groups=[*vectors, *frames, *(tree_group(2**e) for e in (17, 20, 24))], plays=plays)


def quick_plan(processes: int) -> Plan:
    """Two minutes' worth of it: it shows that everything runs, and little about who is ahead."""
    groups = [buffer_group("obs 4", 2**17), buffer_group("84x84x4 shared", 2**11), tree_group(2**17)]
    plays: list[tuple[Play, AsCases]] = [
        (replace(throughput(processes, capacity=2**14), seconds=0.1), throughput_cases),
        (replace(contention(capacity=2**14), seconds=0.1), contention_cases),
    ]
    return Plan(groups=groups, plays=plays, num_rounds=2, slice_s=0.02)
