"""The supervisor: owns the shared memory, starts the processes, watches them, ends them.

    RUNNING --all done--> finished
       |-- Ctrl-C, SIGTERM, SIGHUP --> drain: actors stop, the learner saves --> KeyboardInterrupt, exit 143, 129
       |                         `-- again --> everything is killed at once
       |-- an actor or the evaluator dies --> restarted, three times within a minute; not a deterministic run's actor
       |-- a callback asks for the end --> no more grants; the rest as always --> finished
       |-- a callback raises --> drain --> what it raised
       `-- the learner dies, or nobody is to be restarted --> drain --> RunError

It is not on the data path, and imports no framework. Whatever happens, it leaves no process and
no memory: children die with it, and memory goes with the last process that holds it.
"""

import contextlib
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from drivetrain.core.errors import RunError
from drivetrain.core.fork_server import ForkServer
from drivetrain.core.readable import readable
from drivetrain.core.signals import Signals, raise_for
from drivetrain.train.environments.watching import MOST_WATCHED_S, WatchClock
from drivetrain.train.episode import Episode
from drivetrain.train.job import Job, result
from drivetrain.train.ledger.ledger import Counts
from drivetrain.train.ledger.rules import Rules
from drivetrain.train.processes.launch import Child, fork_server, kill_all
from drivetrain.train.processes.topology import Assignment, Memory, Role
from drivetrain.train.run_dir.results import Result
from drivetrain.train.run_dir.saving import latest_checkpoint
from drivetrain.train.telemetry.metrics import Meter, MetricsFile, Row, last_evaluation
from drivetrain.train.telemetry.progress import Display
from drivetrain.train.telemetry.recording import METRICS, STARTING, WAITING

_POLL_S = 0.1
_IDLE_S = 30.0  # for which a learner that is to finish its call and save may be at nothing
_STRAGGLER_S = 5.0  # for everybody else
_NUM_RESTARTS = 3
_RESTART_WINDOW_S = 60.0


def supervise(job: Job) -> Result:
    """Carry out a run with processes.

    Raises:
        RunError: It had to end early.
        BaseException: What a callback has raised, after the drain.
        KeyboardInterrupt: Ctrl-C, after the drain.
        SystemExit: SIGTERM or SIGHUP, after the drain; the code is 143 or 129.
    """
    with contextlib.closing(fork_server(job.run_dir)) as server:  # it imports while the memory is made
        supervisor = Supervisor(job, server)
        try:
            job.begin()
            with Signals(supervisor.interrupt):
                supervisor.start()
                return supervisor.run()
        finally:
            supervisor.close()


class Supervisor:
    """One run with processes; see the module."""

    def __init__(self, job: Job, server: ForkServer) -> None:
        self._job = job
        self._server = server
        self._config = config = job.config
        self._run_dir = job.run_dir
        self._callbacks = job.callbacks
        self._ends_early = False
        self._children: list[Child] = []
        self._deaths_s: dict[tuple[Role, int], list[float]] = {}
        self._restarts: dict[tuple[Role, int], int] = {}
        self._made: dict[tuple[Role, int], object] = {}  # at its last death, see `_progress`
        self._vain_deaths: dict[tuple[Role, int], int] = {}  # one after the other, with nothing made in between
        told = self._run_dir / "metrics.jsonl"
        # Steps and updates at the last evaluation.
        self._evaluated = None if job.resume_at is None else last_evaluation(told, job.resume_at)
        self._watch_clock = WatchClock()
        self._signum = 0
        self._is_beginning = False  # another process, which may take as long as its imports do
        self._kill_now = False
        self._failure = ""
        self._final_episodes: list[Episode] | None = None
        self._finished_s: float | None = None
        self._learned: tuple[Counts, float] | None = None  # what the learner has told of last, and when that was
        self._began_s = time.monotonic() - job.origin.elapsed_s
        self._meter = Meter(Rules.of(config, job.origin), config.run.log_interval_steps, job.origin, job.unreported)
        self._memory = Memory(config, job.interface, job.origin, job.run_dir)

    def interrupt(self, signum: int) -> None:
        """Drain; the second time, kill. Called from a signal handler: it only leaves notes.

        Raises:
            KeyboardInterrupt, SystemExit: The second time, where nobody looks at notes as a process is waited for.
        """
        self._kill_now = self._signum != 0
        self._signum = signum
        if self._kill_now and self._is_beginning:
            raise_for(signum)

    def start(self) -> None:
        """Start everybody.

        Raises:
            RunError: They could not be started.
            KeyboardInterrupt, SystemExit: Nor are they to be any more: a signal has come.
        """
        try:
            with STARTING:
                self._start("learner", 0)  # first: its framework takes longest to load
                for index in range(self._config.num_actors):
                    self._start("actor", index)
                self._start("evaluator", 0)
        except RunError as error:
            raise RunError(f"{error}; {latest_checkpoint(self._run_dir)}") from error

    def run(self) -> Result:
        """Watch until everybody is done."""
        self._display = Display(self._config.run.total_steps)
        try:
            metrics = MetricsFile(self._config, self._run_dir, self._job.resume_at, self._display.note)
            with metrics as self._metrics:
                self._watch()
                done = self._result()
                self._callbacks.require_none_raised()
                return done
        finally:
            self._display.close()

    def _watch(self) -> None:
        drain: _Drain | None = None
        while self._children and not self._kill_now:
            self._listen()
            self._kill_the_stuck()
            self._bury()
            self._heed_callbacks()
            if (self._signum or self._failure) and drain is None:
                self._display.note(f"stopping: {self._failure or 'saving a checkpoint'}")
                self._memory.ledger.stop()
                drain = _Drain()
            if drain is not None and drain.is_pointless(self._children):
                if any(child.role == "learner" for child in self._children):
                    why = f"has been at nothing for {_IDLE_S:g} s"
                    self._display.note(f"the learner {why}, and is ended before it has saved")
                break
            self._report()
        self._end()

    def _heed_callbacks(self) -> None:
        """Do what callbacks have asked for since the last look."""
        error = self._callbacks.error
        if error is not None and not self._failure:
            self._failure = f"a callback raised {type(error).__name__}"
        if self._callbacks.wants_stop and not self._ends_early:
            self._ends_early = True
            if (last_step := self._memory.ledger.end_early()) < self._config.total_steps:
                self._display.note(f"ending at step {last_step:,}, as a callback asks")

    def close(self) -> None:
        """Leave nothing behind."""
        kill_all(self._children)
        for child in self._children:
            child.inbox.close()
        self._children = []
        self._memory.close()

    def _start(self, role: Role, index: int) -> None:
        assignment = Assignment(
            role=role,
            index=index,
            restart=self._restarts.get((role, index), 0),
            config=self._config,
            interface=self._job.interface,
            run_dir=self._run_dir,
            origin=self._job.origin,
            began_s=self._began_s,
            ledger=self._memory.ledger.handle(),
            weights=self._memory.weights.handle(),
            experience=self._memory.experience.handle(),
            round=self._memory.round.handle() if self._memory.round is not None else None,
            episodes=self._memory.episodes if role == "actor" else None,
            moments=self._memory.moments.handle() if self._memory.moments is not None else None,
            evaluated=self._evaluated if role == "evaluator" else None,
            recording=self._job.recording,
        )
        # The learner writes checkpoints: as long as it lives, nobody else may take the run up.
        self._is_beginning = True
        try:
            self._children.append(Child(self._server, assignment, self._job.lock_fd if role == "learner" else None))
        finally:
            self._is_beginning = False

    def _listen(self) -> None:
        """Read every report that has come; wait a moment if there is none."""
        inboxes = {child.inbox.fd: child for child in self._children}
        with WAITING:
            ready = readable(inboxes, _POLL_S)
        for fd in ready:
            child = inboxes[fd]
            reports, is_open = child.inbox.read()
            for report in reports:
                self._take(child, report)
            if not is_open:
                with WAITING, contextlib.suppress(subprocess.TimeoutExpired):
                    child.process.wait(_POLL_S)  # its end of the pipe is closed: it exits now

    def _take(self, child: Child, report: dict[str, Any]) -> None:
        if "reason" in report:
            child.reason = report["reason"]
        elif child.role == "actor":
            self._meter.add_lags(report["lags"], report["num_steps"])
            for episode, ended_at in zip(report["episodes"], report["ended_at"], strict=True):
                self._meter.add_episodes([Episode(*episode)], ended_at)
        elif "note" in report:
            self._display.note(report["note"])
        elif "saved" in report:
            self._meter.mark(report["saved"])
            self._meter.keep(self._run_dir)
        elif "final_episodes" in report:
            self._final_episodes = [Episode(*episode) for episode in report["final_episodes"]]
        elif "num_steps" in report:  # an evaluation, a checkpoint
            if "eval_return" in report:
                self._evaluated = report["num_steps"], report["num_updates"]
            if "checkpoint_nbytes" in report:
                self._meter.keep(self._run_dir, is_written=True)
            self._record(report)
        else:
            self._take_learning(**report)

    def _take_learning(self, learned: Row, after: tuple[int, int, float]) -> None:
        """What the learner tells of its updates; of rollouts a row with each, as far as one is due."""
        self._meter.set_learning(learned)
        num_steps, num_updates, moment_s = after
        counts = Counts(num_steps, num_steps, num_updates)
        self._learned = counts, moment_s
        is_last = self._memory.ledger.is_finished(counts)
        if self._config.on_policy and self._meter.row_is_due(counts) and not is_last:
            self._record(self._meter.row(counts, moment_s))

    def _kill_the_stuck(self) -> None:
        """End actors, and the evaluator, one of whose environments does not come back."""
        timeout_s = self._config.run.step_timeout_s
        self._watch_clock.look()
        for child in self._children:
            if child.role == "learner":
                continue
            place = self._place(child)
            if self._watch_clock.watched_s(place, self._memory.ledger.working_s(place)) > timeout_s:
                child.kill(f"one of its environments has not come back for {timeout_s:g} s (step_timeout_s)")

    def _place(self, child: Child) -> int:
        """Where the ledger notes what an actor or the evaluator is at."""
        return self._config.num_actors if child.role == "evaluator" else child.index

    def _bury(self) -> None:
        """Take those that have ended off the list; restart those that died."""
        for child in [child for child in self._children if child.exit_code() is not None]:
            for report in child.inbox.read()[0]:
                self._take(child, report)
            child.inbox.close()
            self._children.remove(child)
            child.end_others()
            if child.exit_code() != 0 or not self._is_through(child):
                self._mourn(child)

    def _is_through(self, child: Child) -> bool:
        """Whether a child that says it is done may say so; an environment can call sys.exit, too."""
        return bool(self._signum or self._failure) or self._has_done_its_part(child)

    def _has_done_its_part(self, child: Child) -> bool:
        """Whether there is nothing left that anybody would need this actor, or the evaluator, for."""
        if child.role == "evaluator":
            return self._final_episodes is not None
        counts = self._memory.ledger.counts()
        return counts.committed == self._memory.ledger.rules.total_steps

    def _mourn(self, child: Child) -> None:
        if child.role != "learner":
            self._memory.ledger.note_rest(self._place(child))
        if child.role == "actor":
            self._memory.ledger.give_back(child.index)
            if not self._config.on_policy:  # windows of n steps that were open in its environments
                lost = self._config.envs_per_actor * (self._config.replay.num_step - 1)
                needed = self._config.num_rows_before_learning + self._job.origin.num_lost
                self._memory.ledger.lose_rows(lost, needed)
        ended = f"{child.name} {child.describe_end()} (log: {child.log})"
        if self._signum or self._failure:
            if child.role == "learner":  # without having saved all of it
                self._display.note(ended)
            return
        if child.role != "learner" and self._has_done_its_part(child):  # as when its environments cannot be closed
            self._display.note(f"{ended}; its part was done")
            return
        key = (child.role, child.index)
        now = time.monotonic()
        recent = [moment for moment in self._deaths_s.get(key, []) if now - moment < _RESTART_WINDOW_S]
        self._deaths_s[key] = [*recent, now]
        # A deterministic run's environments stand in its checkpoint; a new actor would begin other episodes.
        final = child.role == "learner" or (child.role == "actor" and self._config.run.deterministic)
        made, self._made[key] = self._made.get(key), self._progress(child.role)
        self._vain_deaths[key] = self._vain_deaths.get(key, 0) + 1 if made in (None, self._made[key]) else 1
        if final or len(recent) >= _NUM_RESTARTS or self._vain_deaths[key] > _NUM_RESTARTS:
            times = max(len(recent) + 1, self._vain_deaths[key])
            how = "within a minute" if len(recent) >= _NUM_RESTARTS else "without a step in between"
            self._failure = ended if final else f"{ended} {times} times {how}"
            return
        self._display.note(f"{ended}; starting it again\n{child.last_words()}".rstrip())
        self._restarts[key] = self._restarts.get(key, 0) + 1
        try:
            self._start(*key)
        except RunError as error:  # the learner, which may live, saves what there is
            self._failure = str(error)

    def _progress(self, role: Role) -> object:
        """What the others of a run have got of actors, or of the evaluator; the same where that is nothing new."""
        return self._evaluated if role == "evaluator" else self._memory.ledger.counts().committed

    def _report(self) -> None:
        counts = self._memory.ledger.counts()
        if self._memory.ledger.is_finished(counts):
            self._finished_s = self._finished_s or time.monotonic()
            self._report_the_last(counts)
            if self._final_episodes is None and not self._memory.ledger.rules.goes_on:
                self._display.evaluating(self._config.run.final_eval_episodes)
            return
        if self._memory.ledger.stopping:  # the last checkpoint may have been written before the last steps were taken
            return
        taken = counts.committed == self._memory.ledger.rules.total_steps  # the last row waits for the last update
        if not self._config.on_policy and not taken and self._meter.row_is_due(counts):
            self._record(self._meter.row(counts))

    def _report_the_last(self, counts: Counts) -> None:
        """Write the last row, once all actors have told of their last episodes, and the learner of its last updates."""
        are_acting = any(child.role == "actor" for child in self._children)
        if self._learned is None or are_acting or not self._meter.has_news(counts):
            return
        learned, moment_s = self._learned
        if learned == counts:
            self._record(self._meter.row(counts, moment_s))

    def _record(self, row: Row) -> None:
        """Write a row of metrics, show it, and tell the callbacks."""
        with METRICS:
            self._metrics.write(row)
            self._meter.keep_no_more_than_rows_lack(self._run_dir)
            self._display.show(row)
            self._callbacks.tell(row)

    def _end(self) -> None:
        """Say how the run ended, unless it finished."""
        kill_all(self._children)
        self._meter.keep(self._run_dir)  # actors have told of their last episodes since
        self._callbacks.require_none_raised()
        if self._failure:
            raise RunError(f"{self._failure}; {latest_checkpoint(self._run_dir)}")
        if self._signum:
            self._display.note(f"stopped; {latest_checkpoint(self._run_dir)}")
            raise_for(self._signum)

    def _result(self) -> Result:
        counts = self._memory.ledger.counts()
        if self._meter.has_news(counts):
            self._record(self._meter.row(counts))
        self._meter.keep(self._run_dir)
        now_s = self._finished_s or time.monotonic()
        learning_s = self._job.origin.learning_s + now_s - (self._memory.ledger.first_step_s or now_s)
        rules = self._memory.ledger.rules
        return result(self._job, rules, self._final_episodes or (), (counts.committed, counts.updates), learning_s)


class _Drain:
    """The end of a run that was stopped: the learner finishes its call and saves, everybody else leaves.

    A large replay on a slow disk, or a slow call, may take minutes: what counts is how long the learner was seen at
    nothing. Nobody sees anything while the whole job is suspended.
    """

    def __init__(self) -> None:
        self._began_s = self._looked_s = time.monotonic()
        self._idle_s = 0.0

    def is_pointless(self, children: Sequence[Child]) -> bool:
        """Whether waiting any longer is: the learner is through or hangs, and others hang."""
        now = time.monotonic()
        learner = next((child for child in children if child.role == "learner"), None)
        if learner is None:
            return now - self._began_s > _STRAGGLER_S
        if now - self._looked_s >= _POLL_S:  # as the kernel counts ticks, less says nothing
            self._idle_s += 0.0 if learner.is_at_work() else min(now - self._looked_s, MOST_WATCHED_S)
            self._looked_s = now
        return self._idle_s > _IDLE_S
