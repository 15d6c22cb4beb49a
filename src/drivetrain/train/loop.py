"""The sequential reference: actor, learner and evaluation in turn, in one process.

    while steps or updates are left: one step of the environments; the updates now due

The same functions as the processes use, in a fixed order, so a seed fixes every bit. Slower where
there are cores to spare, and the place to set a breakpoint.
"""

import signal
import sys
import time
from pathlib import Path

from drivetrain.train.actor import Actor, Episode
from drivetrain.train.checkpoint import save_checkpoint
from drivetrain.train.config import TrainConfig
from drivetrain.train.devices import prepare_devices
from drivetrain.train.evaluate import Selection
from drivetrain.train.interface import Interface
from drivetrain.train.learner import Learner, learn, use_compilation_cache
from drivetrain.train.ledger import Counts, Rules
from drivetrain.train.metrics import Meter, MetricsFile
from drivetrain.train.policies import make_policy
from drivetrain.train.progress import Display
from drivetrain.train.run import Result, result
from drivetrain.train.signals import SIGTERM_EXIT, Signals
from drivetrain.train.topology import make_replay


def run_sequentially(config: TrainConfig, interface: Interface, run_dir: Path, *, quiet: bool) -> Result:
    """Carry out a run in this process.

    Raises:
        KeyboardInterrupt: Ctrl-C, after the checkpoint is saved (again: before).
        SystemExit: SIGTERM, likewise; the code is 143.
    """
    use_compilation_cache()
    prepare_devices(config)
    display = Display(config.run.total_steps, quiet=quiet)
    loop = Loop(config, interface, run_dir, display)
    try:
        with Signals(loop.interrupt), MetricsFile(run_dir) as metrics:
            return loop.run(metrics)
    finally:
        loop.close()
        display.close()


class Loop:
    """One sequential run; see the module."""

    def __init__(self, config: TrainConfig, interface: Interface, run_dir: Path, display: Display) -> None:
        self._config = config
        self._run_dir = run_dir
        self._display = display
        self._rules = Rules.of(config)
        self._replay = make_replay(config, interface, shared=False)
        self._learner = Learner(config, interface)
        self._learner.compile()
        self._vector = self._learner.vector  # the actor's; overwritten after each call
        policy = make_policy(config, interface, self._vector)
        self._actor = Actor(config, interface, policy, lambda count: self._replay.writer(num_envs=count))
        self._selection = Selection(config, interface, run_dir)
        self._meter = Meter(self._rules, config.run.log_interval_steps)
        self._counts = Counts(0, 0, 0)
        self._saved_s = float("-inf")
        self._evaluated = -1  # updates behind the weights last evaluated
        self._signum = 0

    def interrupt(self, signum: int) -> None:
        """End after the present step, with a checkpoint; the second time, at once."""
        if self._signum:
            raise KeyboardInterrupt
        self._signum = signum

    def run(self, metrics: MetricsFile) -> Result:
        """Take all steps, and do all updates they call for."""
        start_s = time.perf_counter()
        next_eval = self._config.run.eval_interval_steps
        while self._counts.committed < self._rules.total_steps:
            self._step()
            self._learn()
            if self._signum:
                self._stop()
            if self._meter.row_is_due(self._counts):
                row = self._meter.row(self._counts)
                metrics.write(row)
                self._display.show(row)
            if self._counts.committed >= next_eval:
                self._evaluate(metrics)
                next_eval += self._config.run.eval_interval_steps
        learning_s = time.perf_counter() - start_s
        self._save()
        if self._evaluated != self._counts.updates:
            self._evaluate(metrics)
        if self._meter.has_news(self._counts):
            metrics.write(self._meter.row(self._counts))
        returns = self._selection.final()
        totals = (self._counts.committed, self._counts.updates)
        return result(self._config, self._run_dir, returns, totals, learning_s)

    def close(self) -> None:
        """Release environments and memory."""
        self._actor.close()
        self._selection.close()
        self._replay.close()

    def _step(self) -> None:
        _, committed, updates = self._counts
        num_steps = self._rules.grantable(self._config.run.envs_per_actor, committed, updates)
        episodes: list[Episode] = self._actor.step(num_steps, committed)
        self._meter.add_episodes(episodes)
        committed += num_steps
        self._counts = Counts(committed, committed, updates)

    def _learn(self) -> None:
        """Do the updates due, so that the next step may be taken."""
        committed = self._counts.committed
        while count := self._rules.takeable(committed, self._counts.updates):
            if time.monotonic() - self._saved_s > self._config.run.checkpoint_interval_s:
                self._save()
            progress = committed / self._rules.total_steps
            update = learn(self._learner, self._replay, self._config, count, progress)
            self._meter.set_learning(update.metrics)
            self._vector[:] = self._learner.vector
            self._counts = Counts(committed, committed, self._counts.updates + count)

    def _evaluate(self, metrics: MetricsFile) -> None:
        _, num_steps, num_updates = self._counts
        mean = self._selection.consider(self._vector, num_steps, num_updates)
        self._evaluated = num_updates
        row = {"eval_return": mean, "num_steps": num_steps, "num_updates": num_updates}
        metrics.write(row)
        self._display.show(row)

    def _save(self) -> None:
        meta = {"num_steps": self._counts.committed, "num_updates": self._counts.updates}
        save_checkpoint(self._run_dir, self._learner.arrays(), meta)
        self._saved_s = time.monotonic()

    def _stop(self) -> None:
        self._save()
        self._display.note(f"stopped; the latest checkpoint is {self._run_dir / 'checkpoint'}")
        if self._signum == signal.SIGTERM:
            sys.exit(SIGTERM_EXIT)
        raise KeyboardInterrupt
