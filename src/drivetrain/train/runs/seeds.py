"""The same run from several seeds, and what they reach together.

    seeds -> for each, one after the other: RUN/seed-S, a run of its own -> Outcome -> table, SeedsResult

One after the other, because a run by itself already takes the cores that are there: side by side, runs would
slow each other down, and each would need its own memory for a replay.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drivetrain.core.docstrings import with_fields
from drivetrain.core.errors import DrivetrainError, RunError
from drivetrain.core.words import counted, reward
from drivetrain.train.callbacks import Callback
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.run_dir.folder import seed_dirs
from drivetrain.train.run_dir.results import Result
from drivetrain.train.runs.requirements import placed
from drivetrain.train.runs.run import start

if TYPE_CHECKING:
    from drivetrain.train.runs.intervals import Estimate

_SUCCEEDED = "  succeeded"


@with_fields
@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one seed."""

    seed: int
    """The seed."""
    run_dir: Path
    """The folder of its run."""
    result: Result | None = None
    """What the run has achieved; None if it failed."""
    error: Exception | None = None
    """What ended a run that failed."""


@with_fields
@dataclass(frozen=True, kw_only=True)
class SeedsResult:
    """What several seeds have achieved."""

    run_dir: Path
    """The folder that holds those of the runs."""
    outcomes: tuple[Outcome, ...]
    """One for each seed, in the order of the seeds."""

    @property
    def results(self) -> dict[int, Result]:
        """By seed, those that finished."""
        return {outcome.seed: outcome.result for outcome in self.outcomes if outcome.result is not None}

    @property
    def failures(self) -> dict[int, Exception]:
        """By seed, what ended those that failed."""
        return {outcome.seed: outcome.error for outcome in self.outcomes if outcome.error is not None}

    @property
    def mean_return(self) -> float:
        """Mean over the seeds that finished of the mean return of each."""
        return float(np.mean([result.mean_return for result in self.results.values()]))

    @property
    def success_rate(self) -> float | None:
        """Mean over the seeds that finished of the success rate of each; None where nothing is said of it."""
        rates = [result.success_rate for result in self.results.values() if result.success_rate is not None]
        return float(np.mean(rates)) if rates else None

    @property
    def interquartile_mean(self) -> "Estimate":
        """Interquartile mean over the same, with its 95% bootstrap interval over seeds where there are two.

        Reference: Agarwal et al. 2021, arXiv:2108.13264.
        """
        from drivetrain.train.runs.intervals import estimate  # imports SciPy: only where it is needed

        return estimate([result.mean_return for result in self.results.values()])

    def table(self) -> str:
        """One line per seed, and one that sums them up, for people to read."""
        tells = self.success_rate is not None
        header = f"seed      return{_SUCCEEDED if tells else ''}        steps      updates  run directory"
        lines = [header, *(_line(outcome, tells_success=tells) for outcome in self.outcomes)]
        if self.results:
            value, low, high = self.interquartile_mean
            bounds = None if low is None or high is None else f"{reward(low)}..{reward(high)}"
            interval = "" if bounds is None else f" (95% interval over seeds {bounds})"
            count = counted(len(self.results), "seed")
            means = f"mean return {reward(self.mean_return)}, interquartile mean {reward(value)}{interval} of {count}"
            rate = self.success_rate
            lines.append(means if rate is None else f"{means}, of whose episodes {rate:.0%} succeeded")
        return "\n".join(lines)

    def require_one(self) -> "SeedsResult":
        """This, if any seed finished.

        Raises:
            RunError: None did; its cause is what ended the first.
        """
        if not self.results:
            first = next(iter(self.failures.values()))
            raise RunError(f"no seed finished (folder: {self.run_dir}); the first: {first}") from first
        return self


def seed_configs(config: TrainConfig, seeds: Sequence[int]) -> list[TrainConfig]:
    """The configuration of each seed's run: its own seed and folder, and else the same.

    Raises:
        InvalidInput: One of the folders is taken.
    """
    folders, config = seed_dirs(config, seeds), placed(config)
    return [config.override(seed=seed, run_dir=str(folder)) for seed, folder in zip(seeds, folders, strict=True)]


def run_seeds(
    configs: Sequence[TrainConfig],
    *,
    began: Callable[[TrainConfig, Interface], None] = lambda config, interface: None,
    callbacks: Sequence[Callback] = (),
) -> Iterator[Outcome]:
    """Carry out one run after the other, whatever becomes of each; `began` is told when one begins.

    Ctrl-C, SIGTERM and SIGHUP end the run that is going on, as they end any, and with it this.

    Raises:
        DrivetrainError: The first run could not begin, so none was.
        Exception: What `began` has raised, as where nobody reads any more what it prints; it ends all.
    """
    for index, config in enumerate(configs):
        has_begun, is_telling = index > 0, False

        def ready(config: TrainConfig, interface: Interface) -> None:
            nonlocal has_begun, is_telling
            has_begun = is_telling = True
            began(config, interface)
            is_telling = False

        outcome = Outcome(seed=config.run.seed, run_dir=Path(config.run.run_dir or ""))
        try:
            outcome = dataclasses.replace(outcome, result=start(config, ready=ready, callbacks=callbacks))
        except Exception as error:  # whatever an environment raises in a sequential run, too
            if is_telling or not has_begun:
                raise
            outcome = dataclasses.replace(outcome, error=error)
        yield outcome


def sentence(error: Exception) -> str:
    """An error in one line; one that nobody raised on purpose with its kind."""
    kind = "" if isinstance(error, DrivetrainError) else f"{type(error).__name__}: "
    return kind + " ".join(str(error).split())


def _line(outcome: Outcome, *, tells_success: bool) -> str:
    if outcome.error is not None:
        return f"{outcome.seed:>4}      failed  {sentence(outcome.error)}"
    result = outcome.result
    assert result is not None
    rate = "" if result.success_rate is None else f"{result.success_rate:.0%}"
    success = f"{rate:>{len(_SUCCEEDED)}}" if tells_success else ""
    counts = f"{result.num_steps:>11,}  {result.num_updates:>11,}"
    return f"{outcome.seed:>4}  {reward(result.mean_return):>10}{success}  {counts}  {outcome.run_dir}"
