"""The sequential reference: actor, learner and evaluation in turn, in one process.

    while steps or updates are left:
        one step of the environments
        begin the updates that the next step calls for, from what is stored; finish those of this step

The same functions as the processes use, in a fixed order, so a seed fixes every bit: each step is acted by the weights
after all calls of updates due before it, while the devices are at those that it calls for. The place to set a
breakpoint.
"""

import contextlib
import time
import traceback
from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import NoReturn

from drivetrain.core.errors import RunError
from drivetrain.core.garbage import uncollected
from drivetrain.core.signals import Interruption, Signals, raise_for
from drivetrain.train.actor.actor import make_actor
from drivetrain.train.environments.faults import EnvironmentFault
from drivetrain.train.evaluate import Selection, next_evaluation
from drivetrain.train.experience.experience import make_experience, stored_interface, writers
from drivetrain.train.experience.rollout import RolloutBuffer
from drivetrain.train.experience.rounds.rounds import Rounds
from drivetrain.train.job import Job, result
from drivetrain.train.learner.compilation import using_compilation_cache
from drivetrain.train.learner.devices import prepare_devices
from drivetrain.train.learner.learner import begun_learner
from drivetrain.train.ledger.ledger import Counts
from drivetrain.train.ledger.rules import Rules
from drivetrain.train.networks.broadcasting import broadcasting
from drivetrain.train.run_dir.archives import Arrays
from drivetrain.train.run_dir.checkpoint import has_best_policy, load_replay
from drivetrain.train.run_dir.results import Result
from drivetrain.train.run_dir.saving import Progress, Saver, latest_checkpoint
from drivetrain.train.telemetry.metrics import Meter, MetricsFile, Row
from drivetrain.train.telemetry.progress import Display
from drivetrain.train.telemetry.recording import CHECKPOINT, METRICS, STARTING, WEIGHTS


def run_sequentially(job: Job, interruption: Interruption) -> Result:
    """Carry out a run in this process, unless there was an interruption before.

    Raises:
        RunError: An environment's fault has ended it, after the checkpoint is saved; or learning has diverged.
        KeyboardInterrupt: Ctrl-C, after the checkpoint is saved (again: before).
        SystemExit: SIGTERM or SIGHUP, likewise; the code is 143 or 129.
        BaseException: What a callback has raised, likewise.
    """
    with (
        contextlib.closing(Display(job.config.run.total_steps)) as display,
        _telling_of_faults(job.run_dir),
        using_compilation_cache(),
        broadcasting(),
    ):
        with STARTING, uncollected(), Signals(interruption.note):
            prepare_devices(job.config)
            loop = Loop(job, display, interruption)
        with contextlib.closing(loop):
            job.begin()
            with (
                Signals(interruption.note),
                MetricsFile(job.config, job.run_dir, job.resume_at, display.note) as metrics,
            ):
                return loop.run(metrics)


@contextlib.contextmanager
def _telling_of_faults(run_dir: Path) -> Generator[None, None, None]:
    """Say of an environment's fault what a run with processes says: where the traceback is, and the checkpoint."""
    try:
        yield
    except EnvironmentFault as fault:
        log, noted = run_dir / "logs" / "sequential.log", ""
        if fault.__cause__ is not None:
            # Where there is no room, the sentence has to do; names of files in it may be no UTF-8.
            with contextlib.suppress(OSError), log.open("a", encoding="utf-8", errors="backslashreplace") as file:
                traceback.print_exception(fault.__cause__, file=file)
                noted = f" (log: {log})"
        raise RunError(f"{fault}{noted}; {latest_checkpoint(run_dir)}") from fault.__cause__


class Loop:
    """One sequential run; see the module.

    It ends after the present step, evaluation or call of updates, with a checkpoint, once there was an interruption.
    """

    def __init__(self, job: Job, display: Display, interruption: Interruption) -> None:
        with contextlib.ExitStack() as made:
            self._make(job, display, interruption, made)
            self._made = made.pop_all()

    def _make(self, job: Job, display: Display, interruption: Interruption, made: contextlib.ExitStack) -> None:
        """All that a run needs; `made` closes what of it there is."""
        self._job = job
        self._config = config = job.config
        self._display = display
        self._interruption = interruption
        self._has_learned = False  # all there is to learn, and saved it
        self._rules = Rules.of(config, job.origin)
        saved = (
            load_replay(job.run_dir, shared=False, scratch_dir=config.replay.scratch_dir) if job.is_resumed else None
        )
        experience = make_experience(config, job.interface, shared=False) if saved is None else saved
        self._experience = made.enter_context(contextlib.closing(experience))
        self._learner, encoders, arrays = begun_learner(config, job.interface, job.run_dir, job.origin)
        with interruption.held():  # an exception in XLA's compiler ends the process later on, by a segmentation fault
            self._learner.compile()
        self._gathered = self._experience  # what the actor writes
        self._rounds: Rounds | None = None
        if config.run.deterministic:
            self._rounds = self._make_rounds(arrays, made)
        self._vector = self._learner.learned.vector  # the actor's; overwritten after each call
        path = (0, 0, job.origin.num_resumes) if job.is_resumed else (0, 0)
        actor = make_actor(
            config,
            job.interface,
            self._vector,
            writers(self._gathered, 0),
            index=0,
            path=path,
            episodes=self._rounds.episodes if self._rounds is not None and job.is_resumed else None,
            num_steps=job.origin.num_steps,
            encoders=encoders,
        )
        self._actor = made.enter_context(contextlib.closing(actor))
        if self._actor.moments is not None:
            self._actor.moments.table[:] = self._learner.learned.statistics.table
        self._steps_per_grant = self._actor.steps_per_call if config.on_policy else config.steps_per_grant
        # Rollouts and rounds are learned from when they are whole.
        self._steps_ahead = 0 if config.on_policy or config.run.deterministic else self._steps_per_grant
        selection = Selection(config, job.interface, job.run_dir, complain=display.note, beat=self._beat)
        self._selection = made.enter_context(contextlib.closing(selection))
        self._saver = Saver(job.run_dir, config, job.interface, self._experience, job.origin)
        self._meter = Meter(self._rules, config.run.log_interval_steps, job.origin, job.unreported)
        self._counts = Counts(job.origin.num_steps, job.origin.num_steps, job.origin.num_updates)
        self._begun: deque[int] = deque()  # updates of each call that the devices are at
        self._evaluated = -1  # updates behind the weights last evaluated
        self._began_s = time.monotonic()

    def run(self, metrics: MetricsFile) -> Result:
        """Take all steps, and do all updates they call for; save what there is where an environment ends that."""
        self._metrics = metrics
        try:
            return self._run()
        except EnvironmentFault as fault:
            if not self._has_learned:
                self._save()
            # An interruption reaches an environment's own processes, too; what a callback has raised is the caller's.
            if self._interruption.signum or self._job.callbacks.error is not None:
                self._display.note(str(fault))
                self._leave()
            raise

    def _run(self) -> Result:
        if self._interruption.signum:  # before anything was done
            self._leave()
        self._learn()  # what the checkpoint left to do
        num_steps, num_updates = self._metrics.evaluated
        self._next_eval = next_evaluation(self._config, num_steps)
        if num_updates == self._job.origin.num_updates and has_best_policy(self._job.run_dir):
            self._evaluated = num_updates  # the weights that an earlier session has left
        if self._counts.committed < self._rules.total_steps:
            self._evaluate_where_due()  # what the end of an earlier session has left out
        while self._counts.committed < self._rules.total_steps:
            self._step()
            self._learn()
            self._write_where_due()
            if self._interruption.signum and self._counts.granted == self._counts.committed:
                self._stop()
            self._evaluate_where_due()
            self._heed_callbacks()
        self._learn()  # what is left to do of a run that a callback has ended
        if self._meter.has_news(self._counts):
            self._write(self._row())
        learning_s = self._progress().learning_s
        self._save()
        self._has_learned = True
        if self._evaluated != self._counts.updates:
            self._evaluate()
        episodes = [] if self._rules.goes_on else self._selection.final()
        self._beat()  # where another part follows, it has not begun
        done = result(self._job, self._rules, episodes, self._counts[1:], learning_s)
        self._job.callbacks.require_none_raised()
        return done

    def close(self) -> None:
        """Release environments and memory."""
        self._made.close()

    def _make_rounds(self, arrays: Arrays | None, made: contextlib.ExitStack) -> Rounds:
        if isinstance(self._experience, RolloutBuffer):
            return Rounds(self._config, self._experience, None, arrays)
        stored = stored_interface(self._config, self._job.interface, self._job.origin)
        gathered = RolloutBuffer.create(self._config, stored, shared=False)
        self._gathered = made.enter_context(contextlib.closing(gathered))
        return Rounds(self._config, self._gathered, self._experience, arrays)

    def _step(self) -> None:
        granted, committed, updates = self._counts
        if granted == committed:
            granted += self._rules.grantable(self._steps_per_grant, committed, updates)
        at_once = self._actor.steps_per_call
        for start in range(committed, granted, at_once):
            self._meter.add_episodes(self._actor.step(min(at_once, granted - start), start), granted)
        self._counts = Counts(granted, granted, updates)
        if self._config.on_policy and self._rules.is_whole(granted):
            self._meter.mark(granted)
        if self._rounds is not None and self._rules.is_whole(granted):
            self._rounds.take()
            self._observe()

    def _learn(self) -> None:
        """Do the updates due, so that the next step may be taken, and begin those that it calls for."""
        committed = self._counts.committed
        following = min(committed + self._steps_ahead, self._rules.total_steps)
        if self._rules.takeable(following, self._counts.updates):
            if self._goes_on():
                self._counts = self._counts._replace(granted=following)
            self._update(committed)
        elif self._may_save(committed):
            self._save()
        if self._rounds is not None and self._rules.is_whole(committed):
            self._end_round()

    def _may_save(self, committed: int) -> bool:
        """Whether a checkpoint is due where no update is, of a state that one leaves: updates may be far between."""
        is_between = self._rounds is None and not self._config.on_policy and not self._begun
        return is_between and self._saver.is_due_at(committed)

    def _goes_on(self) -> bool:
        """Whether updates may be begun that the next step calls for: nothing is known that ends the run before it."""
        callbacks = self._job.callbacks
        ends = self._interruption.signum or callbacks.wants_stop or callbacks.error is not None
        return not ends and self._rules.can_draw(self._counts.committed)

    def _update(self, committed: int) -> None:
        """Do the updates due by the steps taken, and begin those due by the steps granted.

        What is begun in the end hangs on no clock, also where a checkpoint comes between.
        """
        if self._rounds is None:
            self._observe()  # for all that is begun below: else it would be by what a checkpoint has observed
        while self._rules.takeable(committed, self._counts.updates):
            is_ending = bool(self._interruption.signum)  # calls may be owed for hours
            is_due = is_ending or (self._rounds is None and self._saver.is_due)
            while self._begin(committed):
                pass
            if not is_due and not self._to_begin(committed):
                self._begin(self._counts.granted)
            self._finish()
            if is_ending:
                self._write_where_due()
                self._stop()
            if is_due:
                self._save()
        while self._begin(self._counts.granted):
            pass

    def _to_begin(self, num_steps: int) -> int:
        """Updates of the next call that so many steps call for."""
        return self._rules.takeable(num_steps, self._counts.updates + sum(self._begun))

    def _begin(self, num_steps: int) -> bool:
        """Begin a call of what updates so many steps call for, if there are any, and room for a call."""
        if len(self._begun) == self._learner.most_begun:
            return False
        if count := self._to_begin(num_steps):
            self._learner.begin(self._experience, count, num_steps / self._config.run.total_steps)
            self._begun.append(count)
        return count > 0

    def _finish(self) -> None:
        """Wait for the oldest call, and act by what is learned."""
        self._learner.finish(self._experience)
        with WEIGHTS:
            self._vector[:] = self._learner.learned.vector
        self._counts = self._counts._replace(updates=self._counts.updates + self._begun.popleft())

    def _end_round(self) -> None:
        """As the learner process ends one: what was observed is acted by; checkpoints are of whole rounds."""
        if self._actor.moments is not None:
            self._vector[:] = self._learner.learned.vector
        if self._saver.is_due_at(self._counts.committed):
            self._save()

    def _beat(self) -> None:
        """Within an evaluation, before each environment's turn: those at the end of a run, maybe long, end at once."""
        if self._interruption.signum and self._has_learned:
            self._leave()
        if self._has_learned and not self._rules.goes_on:
            self._display.evaluating(self._config.run.final_eval_episodes)

    def _observe(self) -> None:
        if self._actor.moments is not None:
            self._learner.observe(self._actor.moments.table)

    def _evaluate_where_due(self) -> None:
        if self._counts.committed >= self._next_eval:
            self._evaluate()
            self._next_eval = next_evaluation(self._config, self._counts.committed)

    def _evaluate(self) -> None:
        _, num_steps, num_updates = self._counts
        found = self._selection.consider(self._vector, num_steps, num_updates)
        self._evaluated = num_updates
        self._write(found)

    @CHECKPOINT
    def _save(self) -> None:
        while self._begun:
            self._finish()
        if not self._config.on_policy:  # of a rollout that is not learned from nothing is kept
            self._meter.mark(self._counts.committed)
            if self._rounds is None:  # what has been seen since the last updates, or before the first
                self._observe()
        arrays = {**self._learner.learned.arrays(), **(self._rounds.arrays() if self._rounds is not None else {})}
        self._meter.keep(self._job.run_dir)
        self._saver.save(arrays, self._progress())
        for outcome in self._saver.outcomes():
            if "note" in outcome:
                self._display.note(outcome["note"])
            else:
                self._meter.keep(self._job.run_dir, is_written=True)
                self._write(outcome)

    def _progress(self) -> Progress:
        """Where the run is."""
        now_s, origin = time.monotonic() - self._began_s, self._job.origin
        _, num_steps, num_updates = self._counts
        if self._config.on_policy:  # a rollout that is not learned from is gathered again
            num_steps = self._rules.calling_for(num_updates)
        return Progress(num_steps, num_updates, origin.elapsed_s + now_s, origin.learning_s + now_s)

    def _row(self) -> Row:
        self._meter.set_learning(self._learner.metrics)
        return self._meter.row(self._counts)

    def _write_where_due(self) -> None:
        """Write the row of the last step, or of an interval; before a run ends, for one taken up there does not."""
        if self._counts.committed == self._rules.total_steps or self._meter.row_is_due(self._counts):
            self._write(self._row())

    @METRICS
    def _write(self, row: Row) -> None:
        self._metrics.write(row)
        self._meter.keep_no_more_than_rows_lack(self._job.run_dir)
        self._display.show(row)
        self._job.callbacks.tell(row)

    def _heed_callbacks(self) -> None:
        """End as callbacks have asked: after the present step, or with what one has raised."""
        callbacks = self._job.callbacks
        granted, _, updates = self._counts
        if callbacks.error is not None:
            self._save()
            callbacks.require_none_raised()
        if callbacks.wants_stop and (last := self._rules.ended_at(granted, updates)) != self._rules:
            self._rules = last
            self._display.note(f"ending at step {last.total_steps:,}, as a callback asks")

    def _stop(self) -> NoReturn:
        self._save()
        self._leave()

    def _leave(self) -> NoReturn:
        self._job.callbacks.require_none_raised()
        self._display.note(f"stopped; {latest_checkpoint(self._job.run_dir)}")
        raise_for(self._interruption.signum)
