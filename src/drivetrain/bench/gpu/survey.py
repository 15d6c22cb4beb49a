"""RL-Scope's survey of the loads that its claims about GPUs are of, in the survey's own report beside this one."""

from pathlib import Path

from drivetrain.bench.gpu.plan import Found, Part
from drivetrain.bench.only import named
from drivetrain.bench.process import lacking
from drivetrain.bench.scope.survey.loads import loads
from drivetrain.bench.scope.trial import finish

NAME = "survey"
ONLY = "SB3 PPO,SB3 A2C,SB3 SAC,SB3 DQN,self-play"
JSON, PAGE = "scope-survey-gpu.json", "scope-survey-gpu.md"


def missing() -> str:
    """Why no load can run; empty where some can."""
    names = named([load.name for load in loads()], ONLY, kind="load")
    asked = [load.program for load in loads() if load.name in names]
    reasons = [skipped.reason for program in asked if (skipped := program.missing()) is not None]
    return reasons[0] if len(reasons) == len(asked) else lacking("torch")


def run(folder: Path, limit_s: float) -> Found:
    """Run it once.

    Raises:
        RunError: It failed, or took too long.
    """
    words = ["bench", "scope", "--survey", "--rounds", "1", "--only", ONLY]
    words += ["--json", str(folder.absolute() / JSON), "--markdown", str(folder.absolute() / PAGE)]
    finish(["-m", "drivetrain.cli.main", *words], folder, limit_s)
    return Found()


PART = Part(name=NAME, most_s=520, run=run, missing=missing)
