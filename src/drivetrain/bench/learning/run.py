"""One run of one side in a fresh process: what it is asked, what it answers.

Task -> task.json -> python -m drivetrain.bench.learning.peers.SIDE -> learned.json -> Learned
"""

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from drivetrain.bench.learning.case import LearningCase
from drivetrain.bench.learning.contests import case_named
from drivetrain.bench.learning.sides import Side
from drivetrain.bench.process import last_words, launch
from drivetrain.bench.train.run import wait
from drivetrain.core.aside import save_text
from drivetrain.core.errors import RunError
from drivetrain.train.config.simulator import SimEngine

TIMEOUT_S = 12 * 3_600.0  # a run may be paused for hours; it ends by its number of steps


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run: a case by name, a seed, the form of the side (see `Side`), and the steps (a quick run has fewer).

    `command_pid` is the process that asks; the run ends with it.
    """

    case: str
    seed: int
    num_actors: int | None
    total_steps: int
    sim_engine: SimEngine = "auto"
    num_envs: int | None = None
    command_pid: int = field(default_factory=os.getpid)

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
    with tempfile.TemporaryDirectory(prefix="drivetrain-bench-") as name:
        folder = Path(name)
        task_path, answer_path = folder / "task.json", folder / "learned.json"
        task.save(task_path)
        process = launch(side.rival, [str(task_path), str(answer_path)], folder=folder)
        cpu_s = wait(process, side.rival, TIMEOUT_S)
        if process.returncode != 0 or not answer_path.exists():
            raise RunError(f"{side.name} ended with code {process.returncode}: {last_words(folder)}")
        answer: dict[str, Any] = json.loads(answer_path.read_text())
    learned = replace(Learned(**answer), cpu_s=cpu_s)
    if (got := (learned.num_steps, learned.num_updates)) != case.work:
        raise RunError(f"{side.name}: expected {case.work} environment steps and updates, got {got}")
    return learned
