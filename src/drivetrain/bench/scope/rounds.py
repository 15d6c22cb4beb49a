"""All runs: in every round each program once alone and once under each tool, programs and runs in random order."""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from drivetrain.bench.report import Skipped
from drivetrain.bench.scope.contenders import OURS, Program, Tool
from drivetrain.bench.scope.trial import Trial
from drivetrain.core.errors import RunError

ALONE = "alone"
Runner = Callable[[Program, Tool | None], Trial]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The runs of a program: "alone", or a tool's name, to one trial per round.

    Attributes:
        program: Which.
        trials: Its runs; run i of each was made in the same round, close to the others in time.
    """

    program: Program
    trials: dict[str, list[Trial]] = field(default_factory=lambda: defaultdict[str, list[Trial]](list))


def measure(
    programs: Sequence[Program], tools: Sequence[Tool], *, num_rounds: int, rng: random.Random, run: Runner
) -> tuple[list[Measured], list[Skipped]]:
    """Run everything.

    Returns:
        The programs that ran in every round, and what failed: a program by itself, or a tool on a program.

    Raises:
        RunError: A program that runs alone failed under our own recording.
    """
    found = {program.name: Measured(program=program) for program in programs}
    failed: dict[str, str] = {}
    for number in range(num_rounds):
        print(f"round {number + 1} of {num_rounds}", flush=True)
        for program in rng.sample(programs, len(programs)):
            if program.name in failed:
                continue
            contenders = [None, OURS, *tools]
            for tool in rng.sample(contenders, len(contenders)):
                if f"{program.name}, {_name(tool)}" not in failed:
                    _try(found[program.name], tool, run, failed)
    skipped = [Skipped(name=who, reason=why, remedy="run it alone to see more") for who, why in failed.items()]
    return [measured for name, measured in found.items() if name not in failed], skipped


def _try(measured: Measured, tool: Tool | None, run: Runner, failed: dict[str, str]) -> None:
    name = _name(tool)
    print(f"  {measured.program.name}, {name}", flush=True)
    try:
        measured.trials[name].append(run(measured.program, tool))
    except RunError as error:
        if tool is OURS:
            raise RunError(f"{measured.program.name}, recorded: {error}") from error
        failed[measured.program.name if tool is None else f"{measured.program.name}, {name}"] = str(error)
        measured.trials.pop(name, None)


def _name(tool: Tool | None) -> str:
    return ALONE if tool is None else tool.rival.name
