"""All runs: in every round each program once alone and once under each tool, programs and runs in random order."""

import random
from collections import defaultdict
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from drivetrain.bench.report import Skipped
from drivetrain.bench.scope.contenders import OURS, Program, Tool
from drivetrain.bench.scope.held_out import TooFewBlocks
from drivetrain.bench.scope.kept import Kept
from drivetrain.bench.scope.trial import Trial
from drivetrain.core.errors import RunError

ALONE = "alone"
Runner = Callable[[Program, Tool | None], Trial]


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
    programs: Sequence[Program],
    tools: Sequence[Tool],
    *,
    num_rounds: int,
    rng: random.Random,
    run: Runner,
    kept: Kept,
    with_tools: Container[str] | None = None,
) -> tuple[list[Measured], list[Skipped]]:
    """Run everything that is not kept from before; ends early, with what there is, when it is interrupted (Ctrl-C).

    Args:
        programs: What to run.
        tools: Other profilers.
        num_rounds: How often everything runs.
        rng: Of the order.
        run: Runs a program once.
        kept: Runs made before; new ones go there too.
        with_tools: Names of the programs that run under other profilers; None: all.

    Returns:
        The programs that ran recorded, and what failed: a program by itself, or a tool on a program.

    Raises:
        RunError: A program that runs alone failed under our own recording.
    """
    found = {program.name: Measured(program=program) for program in programs}
    failed: dict[str, str] = {}

    def asked(program: Program) -> bool:
        return with_tools is None or program.name in with_tools

    try:
        for number in range(num_rounds):
            print(f"round {number + 1} of {num_rounds}", flush=True)
            for program in rng.sample(programs, len(programs)):
                contenders = [None, OURS, *(tool for tool in tools if tool.fits(program) and asked(program))]
                for tool in rng.sample(contenders, len(contenders)):
                    if program.name not in failed and f"{program.name}, {_name(tool)}" not in failed:
                        _try(found[program.name], tool, number, run, failed, kept)
    except KeyboardInterrupt:
        failed["everything that is missing"] = "the run was interrupted"
    skipped = [Skipped(name=who, reason=why, remedy="run it alone to see more") for who, why in failed.items()]
    return [one for name, one in found.items() if name not in failed and one.trials.get(OURS.rival.name)], skipped


def _try(measured: Measured, tool: Tool | None, number: int, run: Runner, failed: dict[str, str], kept: Kept) -> None:
    name = _name(tool)
    key = (measured.program.name, name, number)
    result = kept.get(key)
    if result is None:
        print(f"  {measured.program.name}, {name}", flush=True)
        try:
            result = run(measured.program, tool)
        except RunError as error:
            if tool is OURS and not isinstance(error, TooFewBlocks):
                raise RunError(f"{measured.program.name}, recorded: {error}") from error
            result = str(error)
        kept.add(key, result)
    if isinstance(result, str):
        is_all = tool is None or tool is OURS
        failed[measured.program.name if is_all else f"{measured.program.name}, {name}"] = result
        measured.trials.pop(name, None)
    else:
        measured.trials[name][number] = result


def _name(tool: Tool | None) -> str:
    return ALONE if tool is None else tool.rival.name
