"""`drivetrain bench scope`: programs alone, recorded and under other tools, and the corrected time beside the truth."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drivetrain.bench.effort import require_at_least
from drivetrain.bench.kept import conditions
from drivetrain.bench.machine import origin_of
from drivetrain.bench.only import named
from drivetrain.bench.publish import Outputs, present, publish
from drivetrain.bench.report import INTERRUPTED, Report
from drivetrain.bench.scope.cases import make_cases
from drivetrain.bench.scope.contenders import JUDGED, OURS, PROGRAMS, TOOLS, Program
from drivetrain.bench.scope.own import NAMES, measure_own
from drivetrain.bench.scope.rounds import BROKEN, Plan, Runner, measure, runs_in
from drivetrain.bench.scope.survey.loads import loads
from drivetrain.bench.scope.survey.outcome import run as run_load
from drivetrain.bench.scope.survey.page import as_page
from drivetrain.bench.scope.survey.survey import runs_in as survey_runs_in
from drivetrain.bench.scope.survey.survey import survey, survey_report
from drivetrain.bench.scope.trial import run as run_trial
from drivetrain.bench.train.contenders import DISTRIBUTIONS
from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.core.outputs import require_folders

WEAKNESSES = (
    "The truth about our own recording is what muted blocks of the same run take: wrappers are still there. What they "
    "cost while they record nothing is measured alone, in a loop, and stands beside it; runs alone and recorded, as "
    "processes of their own, are in the tables of tools, and too noisy to tell a few percent.",
    "CPU time of the program's main thread: what recording adds to waiting, or to other threads, is not measured here.",
    "Every second block is muted. A third of the rounds calibrate, which tell the correction about as much as one of "
    "ten blocks does by default; two thirds tell the truth. Inflation is that of recorded blocks.",
    "Programs are cut to seconds of work, and to fewer where other tools stand beside ours. Compilation (SBX, ours) is "
    "part of it, and small networks on one thread are the worst case for recording and the best for nobody.",
    "The window is that of the program's own work: what starting to record adds to the imports is not in it.",
    "One process per program. What recording in one process adds to the waiting of another is not measured here.",
    "Tools answer different questions (docs/benchmarking.md). pyinstrument and Scalene sample, VizTracer, "
    "torch.profiler and ours record; only ours names operations and corrects itself.",
    'The truth has an error of its own. Where that is wider than our intervals, "holds the truth" says that nothing '
    "contradicts them, not that they are right: no target is judged by it then.",
    "A shared or virtual machine: only the ratios of one run count, and a few rounds are few.",
)
QUICK_WEAKNESS = "A quick run: one round of three programs. It shows that everything runs, not what recording costs."
TOOL_DISTRIBUTIONS = ("pyinstrument", "viztracer", "scalene")


@dataclass(frozen=True, kw_only=True)
class Options(Outputs):
    """Measure what recording adds to programs, and how far the corrected time is from the time alone."""

    keep: Path | None = None
    """Keep every run in this file as it is made, and take from it those of the same code and machine: a bench that was
    stopped goes on."""
    quick: bool = False
    """One round, unless more are asked for, of three programs without other tools; the numbers then mean little."""
    only: str = ""
    """Only programs whose name contains this, or one of these: "SB3", "CartPole", "SBX,ours"."""
    rounds: int | None = None
    """How often each program runs recorded, to judge its corrected time by blocks of the run; by default 3."""
    tool_rounds: int = 1
    """How often each program, for less long, runs alone, recorded, and under each tool."""
    tools: bool = True
    """Run the other profilers that are installed, too."""
    tools_on: str = ""
    """Only on programs whose name contains this, or one of these; they take about half the time of a full run."""
    seed: int = 0
    """Of the order of runs."""
    survey: bool = False
    """RL-Scope's survey instead: where the time of algorithms, simulators and frameworks goes, beside what it found."""

    def check(self) -> None:
        """Refuse what cannot be run, before anything is.

        Raises:
            InvalidInput: A flag is out of range, a folder is missing, or nothing is left to run.
        """
        require_at_least(1, rounds=self.num_rounds(), tool_rounds=self.tool_rounds)
        require_folders(self.json, self.markdown, self.keep)
        if self.survey and self.tools_on:
            raise InvalidInput("--survey: expected no --tools-on, which belongs to the other bench")
        self.with_tools()
        absent = [program.missing() for program in self.programs()]
        if all(absent) and not self.own():
            remedies = sorted({f"{one.reason}: {one.remedy}" for one in absent if one is not None})
            raise InvalidInput(f"none of the {len(absent)} programs asked for can run here; {'; '.join(remedies)}")

    def num_rounds(self) -> int:
        """How often what is judged runs."""
        return (1 if self.quick else 3) if self.rounds is None else self.rounds

    def everything(self) -> list[Program]:
        """What could be asked for."""
        return [load.program for load in loads()] if self.survey else list(PROGRAMS)

    def programs(self) -> list[Program]:
        """What is asked for, whether it can run here or not."""
        names = self._named()
        return [program for program in self.everything() if program.name in names]

    def own(self) -> list[str]:
        """What is asked for beside programs (own.py)."""
        names = self._named()
        return [name for name in NAMES if name in names]

    def with_tools(self) -> list[str]:
        """Names of the programs that stand beside other tools.

        Raises:
            InvalidInput: `tools_on` has a part that is in no name of what is asked for.
        """
        names = [program.name for program in self.programs()]
        return named(names, self.tools_on, kind="program that is asked for", flag="--tools-on")

    def _named(self) -> list[str]:
        names = [program.name for program in self.everything() if program.is_quick or not self.quick]
        return named([*names, *(() if self.survey else NAMES)], self.only, kind="program")


def run(options: Options, words: Sequence[str]) -> int:
    """Measure, print the page, and write what was asked for; the exit code.

    Raises:
        InvalidInput: The options cannot be run; nothing was.
        RunError: A program failed only because it was recorded; the report is written all the same.
    """
    options.check()
    if options.survey:
        return run_survey(options, words)
    report = make_report(options, words, run_trial)
    publish(report, options)
    broken = [f"{one.name}: {one.reason}" for one in report.skipped if one.reason.startswith(BROKEN)]
    if broken:
        raise RunError("; ".join(broken))
    return 0


def run_survey(options: Options, words: Sequence[str]) -> int:
    """Likewise, of the survey.

    Raises:
        RunError: Every load has failed; there is nothing to write.
    """
    asked = [load for load in loads() if load.program in options.programs()]
    kept = survey_runs_in() if options.keep is None else survey_runs_in(options.keep, conditions(DISTRIBUTIONS))
    found = survey(asked, num_rounds=options.num_rounds(), rng=random.Random(options.seed), run=run_load, kept=kept)
    if not found.outcomes:
        raise RunError("no load has run; " + "; ".join(f"{one.name}: {one.reason}" for one in found.skipped))
    report = survey_report(found, words, is_quick=options.quick)
    publish(report, options, page=as_page)
    return 0


def make_report(options: Options, words: Sequence[str], runner: Runner) -> Report:
    """Run every program that can run here, and gather it."""
    distributions = (*DISTRIBUTIONS, *TOOL_DISTRIBUTIONS)
    origin = origin_of(words, distributions)
    programs = options.programs()
    absent = [skipped for program in programs if (skipped := program.missing()) is not None]
    use_tools = options.tools and not options.quick
    rivals, absent_tools = present([tool.rival for tool in TOOLS] if use_tools else [])
    able = [program for program in programs if program.missing() is None]
    names = options.with_tools()
    with_tools = [program.beside_tools() for program in able if program.name in names]
    tools = [tool for tool in TOOLS if tool.rival in rivals]
    plans = [
        Plan(programs=able, contenders=[JUDGED], num_rounds=options.num_rounds()),
        Plan(programs=with_tools, contenders=[None, OURS, *tools], num_rounds=options.tool_rounds),
    ]
    kept = runs_in() if options.keep is None else runs_in(options.keep, conditions(distributions))
    (judged, beside), failed = measure(plans, rng=random.Random(options.seed), run=runner, kept=kept)
    is_over = any(one.reason == INTERRUPTED for one in failed)
    own, absent_own = measure_own([] if is_over else options.own(), is_quick=options.quick)
    return Report(
        title="What recording costs, and how near the corrected time is",
        origin=origin,
        weaknesses=[*([QUICK_WEAKNESS] if options.quick else []), *WEAKNESSES],
        cases=[*make_cases(judged, beside), *own],
        skipped=[*absent, *absent_own, *absent_tools, *failed],
    )
