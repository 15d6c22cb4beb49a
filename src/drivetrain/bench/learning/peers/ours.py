"""drivetrain itself, through the public `train`, at the settings of the case."""

import json
import os
from pathlib import Path
from typing import Any

from drivetrain.bench.learning.peers.entry import POINT_EPISODES, Examination, Training, main, point_interval
from drivetrain.bench.learning.presets import PresetSettings
from drivetrain.bench.learning.run import Task
from drivetrain.bench.train.peers import ours_continuous, ours_ppo
from drivetrain.bench.train.peers.ours_dqn import vanilla
from drivetrain.bench.train.settings import ContinuousSettings, PpoSettings
from drivetrain.core.threads import one_thread_environment, prepare_computation
from drivetrain.train import train
from drivetrain.train.config import TrainConfig
from drivetrain.train.evaluate import policy_of
from drivetrain.train.interface import Interface
from drivetrain.train.run_dir.checkpoint import load_saved_policy

RUN_DIR = Path("run")  # in the empty folder that this process starts in


def overrides(task: Task) -> dict[str, Any]:
    """The task in terms of our configuration.

    With processes, the environments of an actor and the pace are our defaults. Without, one
    environment and as many updates at a time as Stable-Baselines3 does.
    """
    settings = task.details().settings
    if isinstance(settings, PresetSettings):
        form = {"num_actors": task.num_actors, "sim_engine": task.sim_engine}
        return watching(task) | form | {"total_steps": settings.num_steps(task.total_steps)}
    if isinstance(settings, PpoSettings):
        fields = ours_ppo.shared(task.total_steps, settings)
    elif isinstance(settings, ContinuousSettings):
        fields = ours_continuous.shared(task.total_steps, settings)
    else:
        fields = vanilla(task.total_steps, settings)
    if task.num_actors is None:
        fields = {name: value for name, value in fields.items() if name not in ours_continuous.PACE}
    else:
        fields["num_actors"] = task.num_actors
        if not isinstance(settings, PpoSettings):  # which say themselves how many
            fields["envs_per_actor"] = 1
    return watching(task) | fields


def watching(task: Task) -> dict[str, Any]:
    """Where the run is kept, and how often it is looked at."""
    return {
        "seed": task.seed,
        "run_dir": str(RUN_DIR),
        "eval_interval_steps": point_interval(task),
        "eval_episodes": POINT_EPISODES,
        "final_eval_episodes": 1,  # of the best policy, which nobody asks for here
    }


def learn(task: Task, interface: Interface, examination: Examination) -> Training:
    """Train; the last policy is that of the checkpoint, which the end of a run writes."""
    if task.num_actors == 0:  # learns in this very process
        os.environ.update(one_thread_environment(os.environ))
        prepare_computation()
    case = task.details()
    result = train(case.algo, case.env, **overrides(task))
    last = load_saved_policy(RUN_DIR, "last")
    assert last.num_updates == result.num_updates, "the checkpoint is older than the run's end"
    return Training(
        num_steps=result.num_steps,
        num_updates=result.num_updates,
        policy=policy_of(TrainConfig.load(RUN_DIR / "config.json"), interface, last),
        curve=curve_of(RUN_DIR / "metrics.jsonl"),
    )


def curve_of(path: Path) -> list[tuple[int, float]]:
    """The evaluations in a run's metrics: (environment steps, mean return)."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [(int(row["num_steps"]), float(row["eval_return"])) for row in rows if "eval_return" in row]


if __name__ == "__main__":
    main(learn)
