"""The learner process: learns when the ledger says that updates are due, publishes, writes checkpoints.

as_due      updates as soon as so many are owed, one call begun before the last is done; actors go on meanwhile
by_rounds   deterministic: a round is taken, the updates due are done, and only then the next is released
"""

import time

from drivetrain.core.garbage import uncollected
from drivetrain.train.experience.rollout import RolloutBuffer
from drivetrain.train.experience.rounds.rounds import Rounds
from drivetrain.train.learner.compilation import use_compilation_cache
from drivetrain.train.learner.devices import prepare_devices
from drivetrain.train.learner.learner import begun_learner
from drivetrain.train.ledger.ledger import Ledger
from drivetrain.train.networks.broadcasting import broadcasting
from drivetrain.train.processes.reports import Reports
from drivetrain.train.processes.topology import (
    Assignment,
    attach_experience,
    attach_gathered,
    attach_moments,
    attach_weights,
)
from drivetrain.train.run_dir.archives import Arrays
from drivetrain.train.run_dir.saving import Progress, Saver
from drivetrain.train.telemetry.recording import (
    BACKPROPAGATION,
    CHECKPOINT,
    LEDGER,
    METRICS,
    REPLAY,
    STARTING,
    WAITING,
    WEIGHTS,
)

_REPORT_INTERVAL_S = 0.1
_LOOK_S = 1.0  # after which a checkpoint may be due, though no update is


def run(assignment: Assignment, reports: Reports) -> None:
    """Learn until the run is over, and write the last checkpoint."""
    with broadcasting():
        with STARTING, uncollected(for_good=True):
            use_compilation_cache()
            prepare_devices(assignment.config)
            learning = Learning(assignment, reports)
        if assignment.config.run.deterministic:
            learning.by_rounds()
        else:
            learning.as_due()
        learning.end()


class Learning:
    """What the learner process holds, and does.

    Args:
        assignment: What it is told.
        reports: Its pipe to the supervisor.
    """

    def __init__(self, assignment: Assignment, reports: Reports) -> None:
        self._assignment = assignment
        self._reports = reports
        self._config = config = assignment.config
        self._ledger = Ledger.attach(assignment.ledger, assignment.rules, config.num_actors)
        self._weights = attach_weights(assignment)
        self._experience, self._board = attach_experience(assignment), attach_moments(assignment)
        folder, origin = assignment.run_dir, assignment.origin
        self._learner, _, arrays = begun_learner(config, assignment.interface, folder, origin)
        if not self._ledger.stopping:  # else there is nothing to learn, and the checkpoint need not wait
            self._learner.compile()
        self._rounds = self._make_rounds(arrays) if config.run.deterministic else None
        self._num_steps = origin.num_steps  # of the rounds that are learned from
        self._saver = Saver(folder, config, assignment.interface, self._experience, origin)
        self._reported_s = float("-inf")
        self._busy_s = 0.0  # since when the devices are at nothing but the oldest call
        self._update_s = 0.0  # an update's time, of the last call

    def as_due(self) -> None:
        """Learn until the run is over or stops."""
        wait_for_updates = WAITING(self._ledger.wait_for_updates)
        while not self._ledger.is_over:
            count = wait_for_updates(timeout_s=_LOOK_S)  # updates may be far between
            if count or self._may_save():
                self._catch_up()
                if not self._config.on_policy:
                    self._begin_saving()  # the first: before any update
            if count:
                self._learn(count)
                if self._config.on_policy:  # a rollout that is not learned from is gathered again
                    self._begin_saving()

    def _learn(self, count: int) -> None:
        """Do so many updates, and those that are due before they are done."""
        self._busy_s = time.monotonic()
        self._begin(count)
        while following := self._wait_for_more(count):
            self._catch_up()
            self._begin(following)
            self._finish(count)
            count = following
        self._finish(count)

    def by_rounds(self) -> None:
        """Likewise; checkpoints are of whole rounds, written while everybody waits, or of one that a stop has cut off
        between two calls.
        """
        assert self._rounds is not None
        self._do_due()  # what such a stop has left; nobody is granted a step before
        wait_for_round, take = WAITING(self._ledger.wait_for_round), REPLAY(self._rounds.take)
        while num_steps := wait_for_round():
            take()
            self._num_steps = num_steps
            self._observe()
            self._do_due()
            if self._ledger.stopping:
                return
            if self._board is not None:  # what was observed, also where nothing was learned
                self._publish()
            if self._saver.is_due_at(num_steps):
                self._save()
            self._ledger.release(num_steps)

    def _do_due(self) -> None:
        """Do the updates that the rounds taken call for, until the run is told to end: they may be owed for hours.

        A rollout's are one call, and done in any case: no checkpoint keeps the rollout.
        """
        while count := self._ledger.rules.takeable(self._num_steps, self._learner.learned.num_updates):
            if self._ledger.stopping and not self._config.on_policy:
                return
            self._begin(count)
            self._finish(count)

    def _may_save(self) -> bool:
        """Whether a checkpoint is due where no update is."""
        self._tell()
        return not self._config.on_policy and self._saver.is_due_at(self._ledger.counts().committed)

    def end(self) -> None:
        """Write the last checkpoint."""
        if self._rounds is None and not self._config.on_policy:
            self._catch_up()  # with what has been seen since the last updates, or before the first
        self._report()
        self._save()
        self._tell()

    def _make_rounds(self, arrays: Arrays | None) -> Rounds:
        buffer = attach_gathered(self._assignment)
        assert isinstance(buffer, RolloutBuffer)
        replay = None if isinstance(self._experience, RolloutBuffer) else self._experience
        return Rounds(self._config, buffer, replay, arrays)

    def _observe(self) -> None:
        if self._board is not None:
            self._learner.observe(self._board.read())

    def _catch_up(self) -> None:
        self._observe()
        self._num_steps = self._ledger.settled().committed

    def _begin(self, count: int) -> None:
        self._learner.begin(self._experience, count, self._num_steps / self._config.run.total_steps)

    @BACKPROPAGATION
    def _wait_for_more(self, begun: int) -> int:
        """Updates to begin while so many are under way; 0 where they are to be finished first.

        The next draw needs the priorities of the call before, the next rollout its weights, and a checkpoint its state.
        Otherwise this waits while the devices are busy in any case.
        """
        if self._learner.most_begun == 1 or self._saver.is_due:
            return 0
        return self._ledger.wait_for_updates(begun, timeout_s=begun * self._update_s / 2)

    def _finish(self, count: int) -> None:
        self._learner.finish(self._experience)
        self._publish()
        with LEDGER:
            self._ledger.complete(count)
        now_s = time.monotonic()
        update_s, self._busy_s = (now_s - self._busy_s) / count, now_s
        self._update_s = min(update_s, 2 * self._update_s) if self._update_s else update_s  # one stall is no long call
        # Of rollouts each has a row of its own; of single updates what is latest will do.
        if self._config.on_policy or now_s - self._reported_s > _REPORT_INTERVAL_S:
            with METRICS:
                self._report()
                self._tell()
            self._reported_s = time.monotonic()

    @WEIGHTS
    def _publish(self) -> None:
        self._weights.publish(self._learner.learned.vector, self._learner.learned.num_updates)

    def _begin_saving(self) -> None:
        """Begin a checkpoint if one is due, beside what follows."""
        if self._saver.is_due:
            with CHECKPOINT:
                self._saver.begin(*self._saved())

    @CHECKPOINT
    def _save(self) -> None:
        self._saver.save(*self._saved())

    def _saved(self) -> tuple[Arrays, Progress]:
        """What a checkpoint holds from here on; the supervisor is told, which keeps what has happened by now.

        It has heard by then of the one before, which is there until this one is.
        """
        self._saver.wait()
        self._tell()
        progress = self._progress()
        self._reports.send({"saved": progress.num_steps})
        arrays = self._learner.learned.arrays()
        return {**arrays, **(self._rounds.arrays() if self._rounds is not None else {})}, progress

    def _progress(self) -> Progress:
        """Where the run is, between two calls of the learner."""
        now_s, origin = time.monotonic(), self._assignment.origin
        return Progress(
            num_steps=self._num_steps,
            num_updates=self._learner.learned.num_updates,
            elapsed_s=now_s - self._assignment.began_s,
            learning_s=origin.learning_s + now_s - (self._ledger.first_step_s or now_s),
        )

    def _report(self) -> None:
        """Report what the last call has made of how many steps and updates, and when."""
        after = (self._num_steps, self._learner.learned.num_updates, time.monotonic())
        self._reports.send({"learned": self._learner.metrics, "after": after})

    def _tell(self) -> None:
        """Report what came of checkpoints."""
        for outcome in self._saver.outcomes():
            self._reports.send(outcome)
