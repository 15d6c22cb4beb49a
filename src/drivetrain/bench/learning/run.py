"""One run of one side in a fresh process: what it is asked, what it answers.

Task -> job.json -> python -m drivetrain.bench.learning.peers.SIDE -> answer.json -> Learned
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from drivetrain.bench.learning.case import LearningCase
from drivetrain.bench.learning.contests import case_named
from drivetrain.bench.learning.sides import Side
from drivetrain.bench.train.run import answer_of
from drivetrain.core.aside import save_text
from drivetrain.core.errors import RunError
from drivetrain.train.config.simulator import SimEngine

TIMEOUT_S = 12 * 3_600.0  # a run may be paused for hours; it ends by its number of steps


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run: a case by name, a seed, the form of the side (see `Side`), and the steps (a quick run has fewer)."""

    case: str
    seed: int
    num_actors: int | None
    total_steps: int
    sim_engine: SimEngine = "auto"
    num_envs: int | None = None

    def save(self, path: Path) -> None:
        """Write the task for the process that carries it out."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> "Task":
        """Read back what `save` wrote."""
        return cls(**json.loads(path.read_text()))

    def details(self) -> LearningCase:
        """The case itself."""
        return case_named(self.case)


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What a run came to.

    Attributes:
        num_steps: Environment steps taken.
        num_updates: Updates done.
        returns: Of the last policy, deterministic, one per evaluation episode.
        curve: (environment steps, mean return of a few episodes), on the way.
        cpu_s: CPU-seconds of the process and its children, evaluation and imports included.
    """

    num_steps: int
    num_updates: int
    returns: Sequence[float]
    curve: Sequence[tuple[int, float]]
    cpu_s: float = 0.0

    def save(self, path: Path) -> None:
        """Write the answer for the process that asked."""
        save_text(path, json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> "Learned":
        """Read back what `save` wrote."""
        return cls(**json.loads(path.read_text()))


def run_side(side: Side, case: LearningCase, seed: int) -> Learned:
    """Let a side learn a case once, in an empty folder that is removed afterwards.

    Raises:
        RunError: The process failed, with its last line, or did other work than the settings ask for.
    """
    task = Task(
        case=case.name,
        seed=seed,
        num_actors=side.num_actors,
        total_steps=case.total_steps,
        sim_engine=side.sim_engine,
        num_envs=side.num_envs,
    )
    answer, cpu_s = answer_of(side.rival, task.save, Learned.load, timeout_s=TIMEOUT_S)
    learned = replace(answer, cpu_s=cpu_s)
    if (got := (learned.num_steps, learned.num_updates)) != case.work:
        raise RunError(f"{side.name}: expected {case.work} environment steps and updates, got {got}")
    return learned
