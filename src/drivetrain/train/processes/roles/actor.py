"""The actor process: one grant of the ledger at a time, with the latest weights."""

import time
from functools import partial

from drivetrain.train.actor.actor import make_actor
from drivetrain.train.actor.stepper import Stepper
from drivetrain.train.episode import Episode
from drivetrain.train.experience.experience import writers
from drivetrain.train.ledger.ledger import Grant, Ledger
from drivetrain.train.normalization import MomentsBoard
from drivetrain.train.policies.embeddings import Encoders
from drivetrain.train.processes.reports import Reports
from drivetrain.train.processes.topology import Assignment, attach_gathered, attach_moments, attach_weights
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from drivetrain.train.telemetry.recording import LEDGER, METRICS, STARTING, WAITING, WEIGHTS
from drivetrain.train.weights import Weights

# A message stays below PIPE_BUF (4096 bytes), so that it is written whole.
_REPORT_EPISODES = 40
_REPORT_LAGS = 100
_REPORT_INTERVAL_S = 0.05


def run(assignment: Assignment, reports: Reports) -> None:
    """Act while the ledger grants steps."""
    config = assignment.config
    with STARTING:
        ledger = Ledger.attach(assignment.ledger, assignment.rules, config.num_actors)
        weights = attach_weights(assignment)
        board = attach_moments(assignment)
        actor = _assigned_actor(assignment, ledger, weights, board)
    news = News(reports)
    acquire, commit, refresh = WAITING(ledger.acquire), LEDGER(ledger.commit), WEIGHTS(weights.refresh)
    while grant := acquire(assignment.index, config.steps_per_grant):
        refresh()
        episodes, num_steps = take(actor, grant, ledger)
        ledger.note_rest(assignment.index)
        if num_steps < grant.num_steps:  # the run stops; whoever goes on with it takes these steps again
            break
        lag = max(0, ledger.updates - weights.num_updates)  # weights are published before their updates are counted
        if board is not None and actor.moments is not None:
            board.publish(assignment.index, actor.moments.table)
        if not (committed := commit(assignment.index, num_steps)):  # likewise
            break
        news.add(lag, episodes, committed)
    news.tell()
    ledger.note_work(assignment.index)  # environments may hang when they are closed, too
    actor.close()
    ledger.note_rest(assignment.index)


def _assigned_actor(assignment: Assignment, ledger: Ledger, weights: Weights, board: MomentsBoard | None) -> Stepper:
    config, interface = assignment.config, assignment.interface
    experience = attach_gathered(assignment)
    arrays = load_checkpoint(assignment.run_dir)[0] if assignment.origin.encoder_frozen else None
    encoders = Encoders.frozen(config, interface, arrays)
    actor = make_actor(
        config,
        interface,
        weights.vector,
        writers(experience, assignment.index),
        index=assignment.index,
        path=assignment.stream_path,
        episodes=assignment.episodes,
        num_steps=assignment.origin.num_steps,
        encoders=encoders,
        beat=partial(ledger.note_work, assignment.index),
        rest=partial(ledger.note_rest, assignment.index),
    )
    ledger.note_rest(assignment.index)
    if board is not None and actor.moments is not None:
        actor.moments.table[:] = board.of(assignment.index)  # a predecessor's, or the checkpoint's
    return actor


def take(actor: Stepper, grant: Grant, ledger: Ledger) -> tuple[list[Episode], int]:
    """Take the steps of a grant, as many at a time as the actor takes: the episodes that ended, and how many steps.

    Fewer than granted where the run stops meanwhile: a rollout can be long.
    """
    episodes: list[Episode] = []
    num_steps = 0
    while num_steps < grant.num_steps and not (num_steps and ledger.stopping):
        count = min(actor.steps_per_call, grant.num_steps - num_steps)
        episodes += actor.step(count, grant.start + num_steps)
        num_steps += count
    return episodes, num_steps


class News:
    """Gathers what the supervisor should hear, and tells it now and then, never waiting."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._told_s = time.monotonic()
        self._lags: list[int] = []
        self._episodes: list[Episode] = []
        self._ended_at: list[int] = []
        self._num_steps = 0

    def add(self, lag: int, episodes: list[Episode], num_steps: int) -> None:
        """One acting step: updates by which its weights were behind, the episodes it ended, the run's steps then."""
        self._lags.append(lag)
        self._episodes += episodes
        self._ended_at += [num_steps] * len(episodes)
        self._num_steps = num_steps
        if (
            len(self._lags) >= _REPORT_LAGS
            or len(self._episodes) >= _REPORT_EPISODES
            or time.monotonic() - self._told_s > _REPORT_INTERVAL_S
        ):
            self.tell()

    @METRICS
    def tell(self) -> None:
        """Report; what finds no room in the pipe is lost."""
        for start in range(0, max(len(self._episodes), 1), _REPORT_EPISODES):
            part = slice(start, start + _REPORT_EPISODES)
            report = {"episodes": self._episodes[part], "ended_at": self._ended_at[part]}
            self._reports.offer({"lags": self._lags, "num_steps": self._num_steps, **report})
            self._lags = []
        self._told_s = time.monotonic()
        self._episodes, self._ended_at = [], []
