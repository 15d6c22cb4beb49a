"""What recording adds to programs that use the GPU, and how near their corrected time is, to the targets of the CPU.

programs of `bench scope` on the GPU, half of their blocks unrecorded
    -> HeldOut (held_out.py) -> the tables of that bench
    -> what CUPTI costs a call by these blocks, beside its own word
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from drivetrain.bench.gpu.held_out import held_out
from drivetrain.bench.gpu.plan import Found, Part
from drivetrain.bench.gpu.recorded import record
from drivetrain.bench.report import Case, left_out
from drivetrain.bench.scope.cases import OURS, make_cases
from drivetrain.bench.scope.contenders import CALIBRATE_EVERY, PROGRAMS, PYTORCH, Program
from drivetrain.bench.scope.rounds import Measured
from drivetrain.bench.scope.trial import Trial
from drivetrain.bench.scope.window import Window
from drivetrain.bench.train.contenders import SB3
from drivetrain.core.errors import RunError
from drivetrain.scope.accelerator.recording import Check

NAME = "accuracy"
NUM_ROUNDS = 2


def programs() -> list[Program]:
    """Those of `bench scope` on PyTorch whose device can be chosen."""
    named = {program.name: program for program in PROGRAMS}
    chosen = [named[f"{SB3.name} {name}"] for name in ("PPO CartPole-v1", "SAC Pendulum-v1")]
    chosen.append(named[f"{PYTORCH.name} Q-learning CartPole-v1"])
    return [replace(one, name=f"{one.name}, GPU", arguments=(*one.arguments, "cuda")) for one in chosen]


def _missing() -> str:
    there = [program for program in programs() if program.missing() is None]
    absent = programs()[0].missing()
    return "" if there or absent is None else absent.reason


def run(folder: Path, limit_s: float) -> Found:
    """Every program, each round in a process of its own; those that fail are left out and named."""
    absent = [skipped for program in programs() if (skipped := program.missing()) is not None]
    able = [program for program in programs() if program.missing() is None]
    measured = {program.name: Measured(program=program) for program in able}
    checks: dict[str, list[Check]] = {}
    failed: dict[str, str] = {}
    for number in range(NUM_ROUNDS):
        for program in able:
            if program.name not in failed:
                try:
                    trial, said = run_one(program, limit_s / (NUM_ROUNDS * len(able)))
                except RunError as error:
                    failed[program.name] = str(error)
                else:
                    measured[program.name].trials[OURS][number] = trial
                    checks.setdefault(program.name, []).extend(said)
    judged = [one for name, one in measured.items() if one.trials.get(OURS) and name not in failed]
    if not judged:
        raise RunError("; ".join(f"{name}: {why}" for name, why in failed.items()))
    return Found(cases=[*make_cases(judged), *cost_cases(checks)], skipped=[*absent, *left_out(failed)])


def run_one(program: Program, limit_s: float) -> tuple[Trial, Sequence[Check]]:
    """One recorded run, and what its blocks say of CUPTI.

    Raises:
        RunError: It failed, took too long, or its blocks are too few.
    """
    with tempfile.TemporaryDirectory(prefix="drivetrain-bench-") as name:
        folder = Path(name)
        profile = record(folder, program.script, *program.arguments, calibrate_every=CALIBRATE_EVERY, limit_s=limit_s)
        found = Window.load(folder)
        nbytes = sum(file.stat().st_size for file in (folder / "recording").iterdir())
        trial = Trial(
            wall_s=found.wall_s, cpu_s=found.cpu_s, report_s=0.0, nbytes=nbytes, held_out=held_out(profile, found.pid)
        )
        assert profile.usage is not None  # it was recorded
        return trial, profile.usage.recording.checks


def cost_cases(checks: dict[str, list[Check]]) -> list[Case]:
    """Per program and kind of call: what recording adds to one, and what CUPTI says of that."""
    found: list[Case] = []
    for program, said in checks.items():
        for kind in dict.fromkeys(call.kind for check in said for call in check.calls):
            calls = [call for check in said for call in check.calls if call.kind == kind]
            found.append(
                Case(
                    name=f"{program}: a {kind}",
                    unit="ns per call",
                    better="lower",
                    group="What CUPTI costs a call, by blocks without it",
                    samples={"ours": [call.ns for call in calls]},
                    references={
                        "CUPTI's own word": [call.own_ns for call in calls],
                        "± standard error": [call.se_ns for call in calls],
                        "agree": [sum(check.agrees for check in said) / len(said)],
                    },
                    details={"together with": sorted({other for call in calls for other in call.together})},
                )
            )
    return found


PART = Part(name=NAME, most_s=210, run=run, missing=_missing)
