"""`drivetrain bench actors`: how environments that sleep, or compute, for 5 ms per step scale with the actors.

A round runs every number of actors once; linear is the round's own rate of one actor times their number.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from drivetrain.bench.effort import as_asked, require_at_least, require_seconds
from drivetrain.bench.machine import origin_of
from drivetrain.bench.publish import Outputs, publish
from drivetrain.bench.report import Case, Report, Target
from drivetrain.bench.sizing.trial import Drawn, Rates, rates
from drivetrain.core.errors import InvalidInput
from drivetrain.core.machine import num_cores
from drivetrain.core.outputs import require_folders

LINEAR = "linear"
STEP_S = 5e-3
BATCH_SIZE = 64
AIM = 0.9
WEAKNESSES = (
    "DQN with 2 x 64 units, 8 environments for each actor, one update for 4 steps: little is learned, so that acting "
    "is what is measured. Without evaluations.",
    "Rates are steps per second by the clock: where somebody else has the cores meanwhile, environments that compute "
    "take as much longer, and sleeping ones wake up late.",
    "Linear is one actor of the same round times their number, and that one is measured as badly as the others.",
)
QUICK_WEAKNESS = "A quick run: one round, one second each. It shows that everything runs, not how it scales."
Kind = Literal["sleeps", "computes"]
KINDS: tuple[Kind, ...] = ("sleeps", "computes")
Counted = dict[int, list[Rates]]
"""Number of actors: what each round gave."""


class Effort(NamedTuple):
    """Up to how many actors, how often each number, and how long a run."""

    most: int
    rounds: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Options(Outputs):
    """Run 1 to 16 actors of environments that sleep 5 ms, and 1 to the cores of those that compute 5 ms."""

    quick: bool = False
    """One round with 1 and 2 actors, a second each, where no more is asked for; the numbers then mean little."""
    most: int | None = None
    """Largest number of actors of sleeping environments; by default 16."""
    rounds: int | None = None
    """How often each number of actors is run; by default 3."""
    seconds: float | None = None
    """How long a run is measured, from its first updates on; by default 5."""

    def effort(self) -> Effort:
        """What of it is run."""
        return as_asked(Effort(2, 1, 1.0) if self.quick else Effort(16, 3, 5.0), self)

    def check(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            InvalidInput: A flag is out of range, or a folder is missing.
        """
        effort = self.effort()
        if not 1 <= effort.most <= 16:
            raise InvalidInput(f"--most: expected 1 to 16 actors, got {effort.most}")
        require_at_least(1, rounds=effort.rounds)
        require_seconds(seconds=effort.seconds)
        require_folders(self.json, self.markdown)


def run(options: Options, words: Sequence[str]) -> int:
    """Measure, print the page, and write what was asked for; the exit code.

    Raises:
        InvalidInput: The options cannot be run; nothing was.
        RunError: A run ended early.
    """
    options.check()
    most, rounds, seconds = options.effort()
    origin = origin_of(words, ("jax", "jaxlib", "numpy", "gymnasium"))
    cases: list[Case] = []
    for kind in KINDS:
        cases += cases_of(kind, measure(kind, counts(kind, most), rounds, seconds))
    report = Report(
        title="Slow environments: how steps grow with the actors",
        origin=origin,
        weaknesses=[*([QUICK_WEAKNESS] if options.quick else []), *WEAKNESSES],
        cases=cases,
    )
    publish(report, options)
    return 0


def counts(kind: Kind, most: int) -> list[int]:
    """Numbers of actors: powers of two; of environments that compute no more than cores, and those."""
    limit = most if kind == "sleeps" else min(most, num_cores())
    return sorted({limit, *(1 << power for power in range(5) if 1 << power <= limit)})


def measure(kind: Kind, actors: Sequence[int], rounds: int, seconds: float) -> Counted:
    """Run each number of actors in each round, there and back in turn, so that what a machine drifts by cancels out."""
    drawn = Drawn(kind=kind, step_s=STEP_S, width=64, batch_size=BATCH_SIZE)
    found: Counted = {count: [] for count in actors}
    for index in range(rounds):
        for count in actors[:: -1 if index % 2 else 1]:
            found[count].append(rates(drawn, count, 1, seconds))
            print(f"{kind}, {count} actors: {found[count][-1].steps_per_s:.1f} steps/s", flush=True)
    return found


def cases_of(kind: Kind, found: Counted) -> list[Case]:
    """For each number of actors the environments' rate against linear, and the rate of rows that are learned from.

    Each value is a median over rounds; "of linear" is the median of the rounds' own ratios.
    """
    cases: list[Case] = []
    for count, per_round in found.items():
        linear = [count * one.steps_per_s for one in found[1]]
        steps = [each.steps_per_s for each in per_round]
        shares = [mine / all_of_it for mine, all_of_it in zip(steps, linear, strict=True)]
        cases.append(
            Case(
                name=f"environment that {kind} 5 ms, {count} actor{'s' * (count > 1)}",
                unit="environment Hz",
                better="higher",
                group="Environment steps",
                samples={"ours": steps},
                references={LINEAR: linear},
                targets=(Target(against=LINEAR, aim=AIM),) if count > 1 else (),
                details={"of linear, by round": shares, "of linear": statistics.median(shares)},
            )
        )
    for count, per_round in found.items():
        cases.append(
            Case(
                name=f"{kind} 5 ms, {count} actor{'s' * (count > 1)}",
                unit="batch x updates Hz",
                better="higher",
                group="Rows learned from, in Spreeze's terms",
                samples={"ours": [BATCH_SIZE * each.updates_per_s for each in per_round]},
            )
        )
    return cases
