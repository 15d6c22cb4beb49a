"""What every rival's process does around its training: read the job, time it, evaluate, answer."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drivetrain.bench.tied import end_with_bench
from drivetrain.bench.train.evaluation import Layers, evaluate
from drivetrain.bench.train.job import Job, Outcome
from drivetrain.bench.train.stopwatch import Stopwatch, cpu_seconds


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a rival's `run` hands back: the counts it reached, and the policy it ended with.

    `times`, CPU and wall seconds, replace the clock's where the end was found out afterwards. Without `layers`, as of
    networks on images, the policy is not evaluated.
    """

    num_steps: int
    num_updates: int
    layers: Layers
    reached: bool | None = None
    times: tuple[float, float] | None = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Target:
    """Evaluates now and then, off the clock, and stops the clock once the target is reached."""

    job: Job
    watch: Stopwatch
    reached: bool = False
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def is_due(self, num_steps: int) -> bool:
        """Whether `evaluate_every` steps went by since the last evaluation."""
        last = self.history[-1]["num_steps"] if self.history else 0
        return self.job.kind == "target" and num_steps - last >= self.job.evaluate_every

    def check(self, num_steps: int, layers: Layers) -> bool:
        """Evaluate a policy; True once the target was reached, now or before."""
        if self.reached:
            return True
        cpu_s, wall_s = self.watch.read()
        with self.watch.paused():
            result = evaluate(
                layers,
                self.job.env,
                num_episodes=self.job.num_episodes,
                target=self.job.target_return,
            )
        self.reached = result.exact and result.mean >= self.job.target_return
        if self.reached:
            self.watch.stop()
        self.history.append(
            {
                "num_steps": num_steps,
                "cpu_s": cpu_s,
                "wall_s": wall_s,
                "mean": result.mean,
                "exact": result.exact,
            }
        )
        return self.reached


def main(run: Callable[[Job, Stopwatch], Training], prepare: Callable[[Job], None] = lambda job: None) -> None:
    """Run the job named on the command line, and write its outcome beside it.

    Everything imported so far, and by `prepare`, counts as import; the clock starts with `run`.
    """
    end_with_bench()
    job_path, outcome_path = map(Path, sys.argv[1:3])
    job = Job.load(job_path)
    prepare(job)
    import_cpu_s = cpu_seconds()
    watch = Stopwatch()
    training = run(job, watch)
    watch.stop()
    cpu_s, wall_s = training.times or watch.read()
    final = None
    if training.layers:
        final = evaluate(
            training.layers,
            job.env,
            num_episodes=job.num_episodes,
            activation=job.settings.activation if job.settings else "relu",
            squashed=job.settings is not None and job.settings.squashed,
        )
    Outcome(
        cpu_s=cpu_s,
        wall_s=wall_s,
        import_cpu_s=import_cpu_s,
        num_steps=training.num_steps,
        num_updates=training.num_updates,
        mean_return=None if final is None else final.mean,
        reached=training.reached,
        details=training.details,
    ).save(outcome_path)
