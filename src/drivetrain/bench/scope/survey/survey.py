"""Runs the loads, in random order within each round, and gathers what they came to.

loads -> outcomes -> findings -> Report: one case per finding and per load
"""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from drivetrain.bench.kept import Kept, runs_or_reasons
from drivetrain.bench.machine import origin_of
from drivetrain.bench.report import EVERYTHING, INTERRUPTED, Case, Report, Skipped, left_out
from drivetrain.bench.scope.survey.claims import Finding, findings, simulation_percent
from drivetrain.bench.scope.survey.loads import Load
from drivetrain.bench.scope.survey.outcome import Gpu, Outcome
from drivetrain.bench.train.contenders import DISTRIBUTIONS
from drivetrain.core.errors import RunError
from drivetrain.scope.sites import OPERATIONS

CLAIMS, LOADS = "Claims", "Loads"
WEAKNESSES = (
    "Runs of seconds, maybe on a shared machine: shares of busy time are sound to some percent, times per step less "
    "so. RL-Scope's runs were of a machine with a GPU, which takes back-propagation off the CPU and makes simulation's "
    "share of the rest larger; where nothing ran on a GPU here, its claims about them are not judged.",
    "Settings are the libraries' defaults (RL-zoo's for Atari), but SBX's networks of DDPG and TD3, which have the "
    "size of Stable-Baselines3's; RL-Scope's were those of the zoo of its day. How often an algorithm learns per step "
    "decides its shares.",
    "Its simulators were PyBullet's, AirLearning and Atari; ours are Gymnasium's Pendulum, MuJoCo and Atari.",
    "Shares are raw, of threads that are busy: waiting and idling are left out. What recording added stands beside "
    "them. A process counts from its first operation on.",
    "Python's own time inside an operation belongs to it; what no hook knows is `other`.",
    "Transitions are calls that hooks see from Python into native code: a network's forward pass is one, its operators "
    "are none.",
    "Self-play is Connect Four with small networks, not Minigo.",
)
QUICK_WEAKNESS = "A quick run: one round of two loads. It shows that everything runs, not where time goes."
Runs = Kept[Outcome | str]
"""Runs, or the reasons why they failed."""


@dataclass(frozen=True, kw_only=True)
class Surveyed:
    """What ran: loads with their runs, in the order of the loads; and what did not, with the reason."""

    outcomes: dict[str, tuple[Load, list[Outcome]]] = field(default_factory=dict[str, tuple[Load, list[Outcome]]])
    skipped: list[Skipped] = field(default_factory=list[Skipped])


def runs_in(file: Path | None = None, conditions: Mapping[str, Any] | None = None) -> Runs:
    """Runs that a file keeps from before under the same conditions, or the reasons why they failed.

    Raises:
        FileFormatError: The file is something else.
    """

    def restored(saved: Any) -> Outcome:
        return Outcome(**saved | {"gpu": None if saved["gpu"] is None else Gpu(**saved["gpu"])})

    return runs_or_reasons(file, conditions, command="scope --survey", restored=restored)


def survey(
    asked: Sequence[Load], *, num_rounds: int, rng: random.Random, run: Callable[[Load], Outcome], kept: Runs
) -> Surveyed:  # fmt: skip
    """Run everything that can run here; ends early, with what there is, when it is interrupted (Ctrl-C).

    Args:
        asked: What to run.
        num_rounds: How often.
        rng: Of the order.
        run: Runs a load once.
        kept: Runs made before; new ones go there too.
    """
    absent = {load.name: skipped for load in asked if (skipped := load.program.missing()) is not None}
    found: dict[str, list[Outcome]] = {load.name: [] for load in asked if load.name not in absent}
    failed: dict[str, str] = {}
    try:
        for number in range(num_rounds):
            print(f"round {number + 1} of {num_rounds}", flush=True)
            for load in rng.sample(asked, len(asked)):
                if load.name in found and load.name not in failed:
                    result = kept.once({"load": load.name, "round": number}, lambda load=load: _result(load, run))
                    if isinstance(result, str):
                        failed[load.name] = result
                    else:
                        found[load.name].append(result)
    except KeyboardInterrupt:
        failed[EVERYTHING] = INTERRUPTED
    return Surveyed(
        outcomes={load.name: (load, found[load.name]) for load in asked if found.get(load.name)},
        skipped=[*absent.values(), *left_out(failed)],
    )


def _result(load: Load, run: Callable[[Load], Outcome]) -> Outcome | str:
    """A run, or why it failed."""
    print(f"  {load.name}", flush=True)
    try:
        return run(load)
    except RunError as error:
        return str(error)


def survey_report(surveyed: Surveyed, words: Sequence[str], *, is_quick: bool) -> Report:
    """Everything as one report."""
    return Report(
        title="RL-Scope's survey on today's software",
        origin=origin_of(words, DISTRIBUTIONS),
        weaknesses=[*([QUICK_WEAKNESS] if is_quick else []), *WEAKNESSES],
        cases=[
            *map(claim_case, findings(surveyed.outcomes)),
            *(load_case(load, runs) for load, runs in surveyed.outcomes.values()),
        ],
        skipped=surveyed.skipped,
    )


def claim_case(finding: Finding) -> Case:
    """A claim: our number, and RL-Scope's as a reference."""
    return Case(
        name=finding.claim,
        unit=finding.unit,
        better="higher",
        group=CLAIMS,
        samples={} if finding.ours is None else {"ours": [finding.ours]},
        references={} if finding.theirs is None else {"RL-Scope": [finding.theirs]},
        notes=[finding.because],
        details={"holds": finding.holds},
    )


def load_case(load: Load, runs: Sequence[Outcome]) -> Case:
    """A load: simulation's share, and everything else as references and details."""
    names = [*OPERATIONS, *sorted({name for run in runs for name in run.operations} - set(OPERATIONS))]
    shares = {name: [100 * run.operations.get(name, 0.0) for run in runs] for name in names}
    return Case(
        name=load.name,
        unit="% of busy time",
        better="lower",
        group=LOADS,
        samples={"ours": [100 * run.operations.get("simulation", 0.0) for run in runs]},
        references={name: values for name, values in shares.items() if name != "simulation"},
        details={
            "simulation_percent": simulation_percent(runs),
            "us_per_step": statistics.median(run.us_per_step for run in runs),
            "transitions_per_step": statistics.median(run.transitions for run in runs),
            "learner_waiting_percent": 100 * statistics.median(run.waiting for run in runs),
            "overhead_percent": _known(100 * statistics.median(run.overhead for run in runs)),
            "gpu_busy_percent": _median_of([100 * run.gpu.busy for run in runs if run.gpu is not None]),
            "gpu_bound_percent": _median_of([100 * run.gpu.bound for run in runs if run.gpu is not None]),
            "num_processes": max(run.num_processes for run in runs),
            "runs": [{**asdict(run), "overhead": _known(run.overhead)} for run in runs],
        },
    )


def _median_of(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _known(value: float) -> float | None:
    """JSON has no NaN."""
    return None if value != value else value
