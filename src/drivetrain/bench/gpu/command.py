"""`drivetrain bench gpu`: everything that needs a GPU, in parts, and what came of it in one folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drivetrain.bench.effort import require_seconds
from drivetrain.bench.gpu import accuracy, curves, kernels, recording, simulators, survey, tests
from drivetrain.bench.gpu.plan import GPU_DISTRIBUTIONS, Part, carry_out, parts_in
from drivetrain.bench.machine import gpus, origin_of
from drivetrain.bench.only import named
from drivetrain.bench.publish import Outputs, publish
from drivetrain.bench.report import Report, Skipped
from drivetrain.bench.train.contenders import DISTRIBUTIONS
from drivetrain.core.errors import InvalidInput
from drivetrain.scope.cupti.examine import examine

JSON, PAGE = "gpu.json", "gpu.md"
WEAKNESSES = (
    "Sums of kernel times are of several runs of one program, some recorded by us and some by torch.profiler: CUPTI "
    "serves one of them at a time. They hold the noise of the device's clocks.",
    "What recording adds is CPU time of the main thread. Half of the blocks are unrecorded, one of ten by default.",
    "The truth of corrected times has an error of its own, which stands beside it.",
    "Simulators are measured with actions that lie on the device already and with results that stay there.",
)


PARTS = tuple(module.PART for module in (recording, kernels, accuracy, simulators, tests, survey, curves))
"""All of them, what takes least and matters most first."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure what only a GPU can show; again in the same folder, go on with what is left."""

    folder: Path = Path("gpu")
    """Where everything goes: gpu.json, gpu.md, recording/, reports of survey and curves; made where it is not there."""
    only: str = ""
    """Only parts whose name contains this, or one of these: recording, kernels, accuracy, simulators, tests, survey,
    curves."""
    limit_s: float = 540.0
    """Seconds for this command: a part that may take longer than is left of them is not begun."""
    dry_run: bool = False
    """Say what would be done, how long it may take and what is missing for it; needs no GPU."""

    def check(self) -> None:
        """Refuse what cannot be run.

        Raises:
            InvalidInput: A part has no such name, or the limit is no time.
        """
        require_seconds(limit_s=self.limit_s)
        self.chosen()

    def chosen(self) -> list[Part]:
        """What is asked for.

        Raises:
            InvalidInput: `only` has a part that is in no name.
        """
        names = named([part.name for part in PARTS], self.only, kind="part")
        return [part for part in PARTS if part.name in names]


def run(options: Options, words: Sequence[str]) -> int:
    """Do it, write the report, print it; the exit code, 1 where something is left.

    Raises:
        InvalidInput: The options cannot be run, or there is no GPU that can be recorded.
    """
    options.check()
    chosen = options.chosen()
    if options.dry_run:
        print("\n".join(announced(chosen, options.limit_s)))
        return 0
    if remedy := examine().remedy:
        raise InvalidInput(f"bench gpu: there is no GPU here that can be recorded: {remedy}; or look with --dry-run")
    options.folder.mkdir(parents=True, exist_ok=True)
    left = carry_out(chosen, options.folder, options.limit_s)
    report = report_of(options.folder, left, words)
    publish(report, Outputs(json=options.folder / JSON, markdown=options.folder / PAGE))
    return 1 if left else 0


def announced(chosen: Sequence[Part], limit_s: float) -> list[str]:
    """What a run here would do, a line each."""
    lines = [f"here: {'; '.join(examine().found)}; {examine().remedy or 'nothing is missing'}"]
    left_s, number = limit_s, 1
    for part in chosen:
        why = part.missing()
        if not why and part.most_s > limit_s:
            why = f"it may take {part.most_s:.0f} s, more than --limit-s"
        if not why and part.most_s > left_s:
            number, left_s = number + 1, limit_s
        left_s -= 0 if why else part.most_s
        what = f"left out: {why}" if why else f"command {number}, at most {part.most_s:.0f} s"
        lines.append(f"{part.name}: {what}")
    return lines


def report_of(folder: Path, left: Sequence[Skipped], words: Sequence[str]) -> Report:
    """Everything that was done in the folder so far."""
    kept = parts_in(folder)
    done = [found for part in PARTS if (found := kept.get(part.asked)) is not None]
    return Report(
        title="What only a GPU can show",
        origin=origin_of(words, (*DISTRIBUTIONS, *GPU_DISTRIBUTIONS), gpus=gpus()),
        weaknesses=WEAKNESSES,
        cases=[case for found in done for case in found.cases],
        skipped=[*(one for found in done for one in found.skipped), *left],
    )
