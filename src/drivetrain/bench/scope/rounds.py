"""All runs: in every round each program once under each of what a plan names, programs and runs in random order.

Plan (programs x contenders x rounds), Plan, ... -> Runner -> Measured per program
"""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drivetrain.bench.kept import Kept, runs_or_reasons
from drivetrain.bench.report import EVERYTHING, INTERRUPTED, Skipped, left_out
from drivetrain.bench.scope.contenders import JUDGED, OURS, Program, Tool
from drivetrain.bench.scope.held_out import HeldOut, TooFewBlocks
from drivetrain.bench.scope.trial import Trial
from drivetrain.core.errors import RunError

ALONE = "alone"
BROKEN = "recording breaks it: "
"""How the reason begins why a program is missing that runs alone."""
Runs = Kept[Trial | str]
"""Runs, or the reasons why they failed."""
Runner = Callable[[Program, Tool | None], Trial]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What runs, and how often.

    Attributes:
        programs: What.
        contenders: Tools, None for the program alone; those that have nothing to say of a program are left out of it.
        num_rounds: How often everything runs.
    """

    programs: Sequence[Program]
    contenders: Sequence[Tool | None]
    num_rounds: int


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The runs of a program: "alone", or a tool's name, to its trials by round.

    Attributes:
        program: Which.
        trials: Its runs; those of one round were made close to each other in time.
    """

    program: Program
    trials: dict[str, dict[int, Trial]] = field(default_factory=lambda: defaultdict[str, dict[int, Trial]](dict))


def measure(
    plans: Sequence[Plan], *, rng: random.Random, run: Runner, kept: Runs
) -> tuple[list[list[Measured]], list[Skipped]]:
    """Run everything that is not kept from before; ends early, with what there is, when it is interrupted (Ctrl-C).

    What fails is left out and named, and the rest goes on: a bench of half an hour is not lost by one run.

    Args:
        plans: What to run, one after another.
        rng: Of the order.
        run: Runs a program once.
        kept: Runs made before; new ones go there too.

    Returns:
        For each plan the programs that ran recorded; and what failed: a program by itself, a tool on a program, or,
        with a reason that begins with `BROKEN`, a program that only runs when it is not recorded.
    """
    found = [{program.name: Measured(program=program) for program in plan.programs} for plan in plans]
    failed: dict[str, str] = {}
    try:
        for plan, measured in zip(plans, found, strict=True):
            _carry_out(plan, measured, failed, rng, run, kept)
    except KeyboardInterrupt:
        failed[EVERYTHING] = INTERRUPTED
    there = [
        [one for name, one in measured.items() if name not in failed and one.trials.get(OURS.rival.name)]
        for measured in found
    ]
    return there, left_out(failed)


def runs_in(file: Path | None = None, conditions: Mapping[str, Any] | None = None) -> Runs:
    """Runs that a file keeps from before under the same conditions, or the reasons why they failed.

    Raises:
        FileFormatError: The file is something else.
    """

    def restored(saved: Any) -> Trial:
        inside = saved["held_out"]
        return Trial(**saved | {"held_out": None if inside is None else HeldOut(**inside)})

    return runs_or_reasons(file, conditions, command="scope", restored=restored)


def _carry_out(
    plan: Plan,
    found: dict[str, Measured],
    failed: dict[str, str],
    rng: random.Random,
    run: Runner,
    kept: Runs,
) -> None:
    for number in range(plan.num_rounds):
        print(f"round {number + 1} of {plan.num_rounds}", flush=True)
        for program in rng.sample(plan.programs, len(plan.programs)):
            fitting = [tool for tool in plan.contenders if tool is None or tool.fits(program)]
            for tool in rng.sample(fitting, len(fitting)):
                if program.name not in failed and f"{program.name}, {_name(tool)}" not in failed:
                    _try(found[program.name], tool, number, run, failed, kept)


def _try(measured: Measured, tool: Tool | None, number: int, run: Runner, failed: dict[str, str], kept: Runs) -> None:
    name = _name(tool)
    asked = {"program": measured.program.name, "tool": name, "round": number}
    result = kept.once(asked, lambda: _result(measured.program, tool, run))
    if isinstance(result, str):
        failed[measured.program.name if _is_ours(tool) else f"{measured.program.name}, {name}"] = result
        measured.trials.pop(name, None)
    else:
        measured.trials[name][number] = result


def _result(program: Program, tool: Tool | None, run: Runner) -> Trial | str:
    """A run, or why there is none."""
    print(f"  {program.name}, {_name(tool)}", flush=True)
    try:
        return run(program, tool)
    except RunError as error:
        if tool is None or not _is_ours(tool) or isinstance(error, TooFewBlocks):
            return str(error)
        why = str(error)
    try:
        run(program, None)
    except RunError as error:
        return str(error)
    return f"{BROKEN}{why}"


def _is_ours(tool: Tool | None) -> bool:
    """Whether a program is left out altogether where this fails."""
    return tool in (None, OURS, JUDGED)


def _name(tool: Tool | None) -> str:
    return ALONE if tool is None else tool.rival.name
