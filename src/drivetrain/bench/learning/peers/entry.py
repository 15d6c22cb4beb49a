"""What every side's process does around its training: read the task, evaluate the last policy, answer.

One evaluator, one set of seeds and one translation of actions for everybody.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from drivetrain.bench.learning.run import Learned, Task
from drivetrain.bench.tied import end_with_bench
from drivetrain.core.seeding import episode_seeds
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.presets import preset
from drivetrain.train.evaluate import Evaluating, make_evaluator
from drivetrain.train.interface import Interface
from drivetrain.train.policies.policy import Policy
from drivetrain.train.runs.requirements import describe

NUM_EPISODES = 100
SEEDS = episode_seeds(0, "final", NUM_EPISODES)  # apart from all that anybody trains or selects with
NUM_POINTS = 50  # evaluations on the way of a whole run
POINT_EPISODES = 10


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a side's `learn` hands back: the counts it reached, its last policy, its way there."""

    num_steps: int
    num_updates: int
    policy: Policy
    curve: Sequence[tuple[int, float]]


class Examination:
    """The environments that policies of a task are evaluated on; made at the first evaluation."""

    def __init__(self, config: TrainConfig, interface: Interface) -> None:
        self._config, self._interface = config, interface

    @cached_property
    def _evaluator(self) -> Evaluating:
        return make_evaluator(self._config, self._interface)

    def on_the_way(self, policy: Policy, seed: int) -> float:
        """Mean return of a few episodes, on the seeds that our own runs use to watch themselves."""
        episodes = self._evaluator.play(policy, episode_seeds(seed, "selection", POINT_EPISODES))
        return sum(episode.total_reward for episode in episodes) / len(episodes)

    def final(self, policy: Policy) -> list[float]:
        """Return of every evaluation episode."""
        return [episode.total_reward for episode in self._evaluator.play(policy, SEEDS)]


def point_interval(task: Task) -> int:
    """Environment steps between two evaluations on the way."""
    return max(1, task.details().total_steps // NUM_POINTS)  # a quick run has a few


def main(learn: Callable[[Task, Interface, Examination], Training]) -> None:
    """Carry out the task named on the command line, and write what was learned beside it."""
    end_with_bench()
    task_path, answer_path = map(Path, sys.argv[1:3])
    task = Task.load(task_path)
    config = preset(task.details().algo, task.details().env)
    engine: dict[str, Any] = {} if config.fused_engine is None else {"sim_engine": "none"}
    interface = describe(config.override(**engine))  # a kernel with a policy is compiled by the runs that have one
    examination = Examination(config, interface)
    training = learn(task, interface, examination)
    Learned(
        num_steps=training.num_steps,
        num_updates=training.num_updates,
        returns=[round(value, 2) for value in examination.final(training.policy)],
        curve=[(steps, round(mean, 2)) for steps, mean in training.curve],
    ).save(answer_path)
