"""`drivetrain bench sizing`: is what automatic sizing chooses as fast as the best of all settings?"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drivetrain.bench.effort import as_asked, require_at_least, require_seconds
from drivetrain.bench.machine import origin_of
from drivetrain.bench.publish import Outputs, publish
from drivetrain.bench.report import Case, Report, Target
from drivetrain.bench.sizing.trial import Drawn, chosen, rates
from drivetrain.core.machine import num_cores
from drivetrain.core.outputs import require_folders

BEST = "best setting"
AGAIN = "ours again"
WEAKNESSES = (
    "Settings are run for some seconds, one after the other, so a moment in which somebody else has the cores is taken "
    "for a slow setting: only on a quiet machine do ratios near 1 mean anything.",
    "The best of several noisy numbers is too high, which is to our disadvantage. What was chosen runs a second time "
    "in every round ('ours again'): a ratio is no better known than that of these two.",
    "DQN on made-up environments without evaluations; steps that all take the same time.",
)
QUICK_WEAKNESS = "A quick run: one case, a second for each setting. It shows that everything runs, not what is chosen."


class Effort(NamedTuple):
    """How many environments, how often each setting, and how long a run."""

    cases: int
    rounds: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Options(Outputs):
    """Run every number of actors and learners on environments of drawn step times, and compare automatic sizing."""

    quick: bool = False
    """One case, each setting once for a second, where no more is asked for; the numbers then mean little."""
    seed: int = 0
    """Draws the environments."""
    cases: int | None = None
    """Environments: computing and sleeping in turn; by default 4."""
    rounds: int | None = None
    """How often each setting is run; by default 2."""
    seconds: float | None = None
    """How long a run is measured; by default 4."""

    def effort(self) -> Effort:
        """What of it is run."""
        return as_asked(Effort(1, 1, 1.0) if self.quick else Effort(4, 2, 4.0), self)

    def check(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            InvalidInput: A flag is out of range, or a folder is missing.
        """
        effort = self.effort()
        require_at_least(1, cases=effort.cases, rounds=effort.rounds)
        require_seconds(seconds=effort.seconds)
        require_folders(self.json, self.markdown)


def run(options: Options, words: Sequence[str]) -> int:
    """Measure, print the page, and write what was asked for; the exit code.

    Raises:
        InvalidInput: The options cannot be run; nothing was.
        RunError: A run ended early.
    """
    options.check()
    cases, rounds, seconds = options.effort()
    report = Report(
        title="Automatic sizing against every setting",
        origin=origin_of(words, ("jax", "jaxlib", "numpy", "gymnasium")),
        weaknesses=[*([QUICK_WEAKNESS] if options.quick else []), *WEAKNESSES],
        cases=[measure(drawn, rounds, seconds) for drawn in draw(options.seed, cases)],
    )
    publish(report, options)
    return 0


def draw(seed: int, count: int) -> list[Drawn]:
    """Step times from 0.05 to 5 ms; a network whose updates are short, then one whose updates are long."""
    rng = random.Random(seed)
    sizes = ((64, 64), (256, 256))
    return [
        Drawn(
            kind=("computes", "sleeps")[index % 2],
            step_s=round(0.05e-3 * 100 ** rng.random(), 6),
            width=sizes[index // 2 % 2][0],
            batch_size=sizes[index // 2 % 2][1],
        )
        for index in range(count)
    ]


def settings(drawn: Drawn, cores: int) -> list[tuple[int, int]]:
    """(actors, learners): every count of actors up to the cores, powers of two up to 16 where steps sleep."""
    most = 16 if drawn.kind == "sleeps" else 0
    actors = sorted({*range(cores + 1), *(1 << power for power in range(5) if 1 << power <= most)})
    learners = (1,) if drawn.width < 256 or cores == 1 else (1, 2)
    return [(num_actors, num_learners) for num_actors in actors for num_learners in learners]


def measure(drawn: Drawn, rounds: int, seconds: float) -> Case:
    """One case: all settings in turn, and what was chosen once more, which shows what the machine's noise is."""
    choice = chosen(drawn)
    ours = (choice["num_actors"], choice["num_learners"])
    print(f"{drawn.name}: {choice['sized']}", flush=True)
    tried = list(dict.fromkeys([*settings(drawn, num_cores()), ours]))
    found: dict[tuple[int, int], list[float]] = {setting: [] for setting in tried}
    again: list[float] = []
    for index in range(rounds):
        for setting in tried[:: -1 if index % 2 else 1]:  # so that what the machine drifts by cancels out
            found[setting].append(rates(drawn, *setting, seconds).steps_per_s)
        again.append(rates(drawn, *ours, seconds).steps_per_s)
    best = max(tried, key=lambda setting: max(found[setting]))
    return Case(
        name=drawn.name,
        unit="steps/s",
        better="higher",
        samples={"ours": [max(found[ours])]},
        references={BEST: [max(found[best])], AGAIN: [max(again)]},
        targets=(Target(against=BEST, aim=0.9),),
        notes=[
            f"chosen: {choice['sized']}",
            "best of the rounds: " + ", ".join(f"{a} + {m}: {max(each):.0f}" for (a, m), each in found.items()),
            f"best: {best[0]} actors, {best[1]} learners",
        ],
        details={AGAIN: again, **{f"{a} actors, {m} learners": each for (a, m), each in found.items()}},
    )
