"""What was measured, as cases of the report."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.bench.report import Case, Skipped, Target
from drivetrain.bench.sim.contenders import GYMNAX, JITTED, OURSELVES, XLA_IN_SCAN
from drivetrain.bench.sim.plan import ALL_GYMNAX, Comparison
from drivetrain.bench.sim.rounds import Measured
from drivetrain.bench.sim.targets import A_BOOLEAN_EACH, FROM_PYTHON, MEDIAN_AHEAD, ONE_THREAD, TWO_PROCESSES
from drivetrain.bench.sim.trial import Trial

UNFUSED, XLA_UNFUSED = "unfused, K = 1", "our xla, K = 1"
INSIDE_JIT = (FROM_PYTHON, JITTED.name, XLA_IN_SCAN.name)
BESIDE = (ONE_THREAD, TWO_PROCESSES, UNFUSED, XLA_UNFUSED, A_BOOLEAN_EACH, "through Gymnasium", *INSIDE_JIT)
REFERENCES = {*(rival.name for rival in OURSELVES[1:]), *BESIDE}
LIMIT = "limit"
FIRST_S, KEPT_S = 8.0, 0.1
NOTES = {
    "gymnasium.make": "Gymnasium's and EnvPool's calls take one step each and write observations, as theirs have to; "
    "gymnax's and ours take K = 64, but for columns that say K = 1.",
    TWO_PROCESSES: "Two processes at once have half of the environments each, on one thread, and share nothing: what "
    "they give is the most that this machine's two cores had for two threads in this run.",
}
"""What is said of a table in which somebody takes part."""


def speed_case(trial: Trial, measured: Measured) -> Case:
    """Rates of everybody in one trial."""
    rates = measured.wall_rates if trial.by_clock else measured.rates
    samples = {name: values for name in measured.slices if (values := rates(name))}
    return Case(
        name=f"{trial.group}: {trial.name}",
        unit="M steps/s" if trial.by_clock else "M steps/CPU-s",
        better="higher",
        group=trial.group,
        samples={"ours": samples.get("ours", []), **{n: v for n, v in samples.items() if n not in REFERENCES}},
        references={name: values for name, values in samples.items() if name in REFERENCES},
        targets=trial.targets,
        notes=[note for name, note in NOTES.items() if name in trial.scenes],
        details={"missing": dict(measured.missing), "failed": dict(measured.failed)},
    )


def median_case(cases: Sequence[Case], share: float) -> list[Case]:
    """The median ratio over gymnax's environments, if there are several."""
    ratios = [ratio for case in cases if case.group == ALL_GYMNAX and (ratio := case.ratio_against(GYMNAX.name))]
    if len(ratios) < 3:
        return []
    return [
        Case(
            name=f"{ALL_GYMNAX}: median of {len(ratios)} environments",
            unit="× gymnax",
            better="higher",
            group="All of gymnax, nothing recorded, N = 1,024",
            samples={"ours": [statistics.median(ratios)]},
            references={GYMNAX.name: [1.0]},
            targets=[Target(against=GYMNAX.name, aim=MEDIAN_AHEAD * share)],
            details={"ratios": sorted(ratios)},
        )
    ]


def equality_case(comparison: Comparison, found: Mapping[str, Any]) -> Case:
    """What one comparison found."""
    return Case(
        name=comparison.name,
        unit="wrong numbers",
        better="lower",
        group="Equality with XLA",
        samples={"ours": [found["num_wrong"]]},
        references={
            "compared": [found["num_compared"]],
            "largest error of a float": [found["largest_error"]],
            "episodes ended": [found["num_ended"]],
            "same without resync": [found["share_equal"]],
        },
        notes=[
            f"{comparison.num_steps} steps of {comparison.num_envs} environments with random actions, same-step "
            "autoreset; everything that can be recorded, and the state. Step by step from XLA's state: integers, "
            "Booleans and keys exactly, floats within 1e-5.",
            "Same without resync: the share of environments whose whole trajectory is the same where both engines go "
            "their own way from the start; floats that differ by a rounding leave each other in time.",
        ],
    )


def compile_cases(name: str, found: Mapping[str, Any]) -> list[Case]:
    """How long until a kernel can run."""
    group = "Compiling, seconds by the clock"
    first = Case(
        name=f"{group}: {name}, first",
        unit="s",
        better="lower",
        group=group,
        samples={"ours": [found["first_s"]]},
        references={LIMIT: [FIRST_S]},
        targets=[Target(against=LIMIT, aim=1.0)],
        notes=[
            "First: tracing, passes, the C++ compiler, loading. Kept: the same call with source and kernel on disk, "
            "which asks for the environment's fingerprint, or traces anew where that is faster; of it, loading is "
            "finding, checking and loading the kernel. Making: the environment's own constructor "
            "before that, in neither."
        ],
    )
    kept = Case(
        name=f"{group}: {name}, kept",
        unit="s",
        better="lower",
        group=group,
        samples={"ours": found["kept_s"]},
        references={LIMIT: [KEPT_S], "loading": [found["loading_s"]], "making": found["making_s"]},
        targets=[Target(against=LIMIT, aim=1.0)],
    )
    return [first, kept]


def not_measured(trial: Trial, measured: Measured) -> dict[str, Skipped]:
    """Who is missing from a trial, and why, by name."""
    said = {**{name: f"not available: {why}" for name, why in measured.missing.items()},
            **{name: f"failed: {why}" for name, why in measured.failed.items()}}  # fmt: skip
    return {
        name: Skipped(name=f"{name}, {trial.full_name}", reason=why, remedy=trial.scenes[name][0].install)
        for name, why in said.items()
    }
