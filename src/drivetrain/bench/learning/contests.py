"""Who is compared with whom, and in which cases.

sb3        ours against Stable-Baselines3, at settings that were tuned for it
gymnasium  actors on compiled simulators against the same simulators through Gymnasium, at our presets
"""

from collections.abc import Sequence
from dataclasses import dataclass

from drivetrain.bench.learning import cases, simulator_cases
from drivetrain.bench.learning.case import LearningCase
from drivetrain.bench.learning.notes import OF_EVERYBODY, OF_SB3, OF_SIMULATORS
from drivetrain.bench.learning.sides import AGAINST_SB3, ON_SIMULATORS, SB3_WITH_EIGHT, Side
from drivetrain.bench.only import named


@dataclass(frozen=True, kw_only=True)
class Contest:
    """A set of cases, each learned by the same sides.

    Attributes:
        name: On the command line.
        title: Of its page.
        difference: What a form's return less the peer's is called in tables.
        cases: Cheapest first.
        judged: Forms that are judged, then the one that they are judged against.
        weaknesses: What a reader has to know.
        control: The peer in another form, which shows what that costs itself, and who has the same form among those
            that are judged; None: there is none.
    """

    name: str
    title: str
    difference: str
    cases: Sequence[LearningCase]
    judged: Sequence[Side]
    weaknesses: Sequence[str]
    control: tuple[Side, Side] | None = None

    @property
    def forms(self) -> Sequence[Side]:
        """The sides that are judged."""
        return self.judged[:-1]

    @property
    def peer(self) -> Side:
        """The side that they are judged against."""
        return self.judged[-1]

    @property
    def sides(self) -> Sequence[Side]:
        """Whoever has runs."""
        return self.judged if self.control is None else (*self.judged, self.control[0])

    @property
    def pairs(self) -> Sequence[tuple[Side, Side]]:
        """Who is judged, and against whom."""
        return [(form, self.peer) for form in self.forms]

    @property
    def control_pairs(self) -> Sequence[tuple[Side, Side]]:
        """The control against the peer, and who has its form against the control."""
        return [] if self.control is None else [(self.control[0], self.peer), (self.control[1], self.control[0])]

    def matching(self, words: Sequence[str]) -> list[LearningCase]:
        """The cases that have one of the words in their name, in their order; all where there are none.

        Raises:
            InvalidInput: A word is in no name.
        """
        names = named([case.name for case in self.cases], ",".join(words), kind="case", flag="--cases")
        return [case for case in self.cases if case.name in names]


SB3 = Contest(
    name="sb3",
    title="What is learned, against Stable-Baselines3",
    difference="ours less SB3",
    cases=cases.CASES,
    judged=AGAINST_SB3,
    weaknesses=(*OF_EVERYBODY, *OF_SB3),
    control=(SB3_WITH_EIGHT, AGAINST_SB3[1]),
)
SIMULATORS = Contest(
    name="gymnasium",
    title="What is learned on compiled simulators, against the same through Gymnasium",
    difference="fused less through Gymnasium",
    cases=simulator_cases.CASES,
    judged=ON_SIMULATORS,
    weaknesses=(*OF_EVERYBODY, *OF_SIMULATORS),
)
CONTESTS = {contest.name: contest for contest in (SB3, SIMULATORS)}


def case_named(name: str) -> LearningCase:
    """The case of a name that `LearningCase.name` gave."""
    return {case.name: case for contest in CONTESTS.values() for case in contest.cases}[name]
