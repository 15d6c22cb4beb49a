"""Measures contenders in interleaved rounds, so that a slow minute of the machine hits all alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from drivetrain.bench.process import Rival
from drivetrain.bench.train.job import Job, Outcome
from drivetrain.bench.turns import in_turn
from drivetrain.core.errors import RunError


class Contender(NamedTuple):
    """A rival in one of its forms, and the job it gets, less the seed."""

    label: str
    rival: Rival
    job: Job


Results = dict[str, list[Outcome]]  # label -> one outcome per seed


def measure(
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    run: Callable[[Rival, Job], Outcome],
) -> tuple[Results, dict[str, str]]:
    """Run everybody once per seed; the order turns by one from round to round.

    A peer that fails takes no further part; a failure of ours is an error.

    Returns:
        The outcomes, and label -> reason of those that failed.

    Raises:
        RunError: Our own run failed, or somebody did other work than asked for.
    """
    results: Results = {contender.label: [] for contender in contenders}
    failed: dict[str, str] = {}
    for number, seed in enumerate(seeds):
        for contender in in_turn(contenders, number):
            if contender.label in failed:
                continue
            job = replace(contender.job, seed=seed)
            try:
                outcome = run(contender.rival, job)
            except RunError as error:
                if contender.rival.name == "ours":
                    raise
                failed[contender.label] = f"failed: {error}"
                results[contender.label] = []
                print(f"  {error}", flush=True)
                continue
            require_same_work(contender.label, job, outcome)
            results[contender.label].append(outcome)
            print(f"  seed {seed:<3} {contender.label:<24} {describe(outcome)}", flush=True)
    return results, failed


def require_same_work(label: str, job: Job, outcome: Outcome) -> None:
    """Check the counts of a run with given settings: a rival that does less would look fast.

    Raises:
        RunError: Steps or updates differ from what the settings call for.
    """
    if job.settings is None or job.kind != "fixed":
        return
    expected = (job.settings.num_steps(job.total_steps), job.settings.num_updates(job.total_steps))
    got = (outcome.num_steps, outcome.num_updates)
    if got != expected:
        raise RunError(f"{label}: expected {expected} environment steps and updates, got {got}")


def describe(outcome: Outcome) -> str:
    """One run on one line."""
    ending = {None: "", True: "  reached", False: "  not reached"}[outcome.reached]
    mean = f"  return {outcome.mean_return:.0f}" if outcome.mean_return is not None else ""
    return (
        f"{outcome.cpu_s:7.1f} CPU-s {outcome.wall_s:7.1f} s  "
        f"{outcome.num_steps} steps {outcome.num_updates} updates{mean}{ending}"
    )


def details_of(outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
    """What is worth keeping of a contender's runs beside the measured value, one entry per seed."""
    return {
        "num_steps": [outcome.num_steps for outcome in outcomes],
        "num_updates": [outcome.num_updates for outcome in outcomes],
        "final_mean_return": [outcome.mean_return for outcome in outcomes],
        "import_cpu_s": [outcome.import_cpu_s for outcome in outcomes],
        "process_cpu_s": [outcome.process_cpu_s for outcome in outcomes],
        "reached": [outcome.reached for outcome in outcomes],
        "evaluations": [outcome.details.get("evaluations", []) for outcome in outcomes],
        "load_1min_before": [outcome.details.get("load_1min_before") for outcome in outcomes],
    }
