"""Who works on a run, and what they share.

    supervisor (owns the memory, is never on the data path)
    |-- actor 0..A-1   weights -> replay (on-policy: rollout), ledger
    |-- learner        replay (rollout) -> weights, ledger
    `-- evaluator      weights -> RUN/best

Each child has a pipe of its own to the supervisor, for reports.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from drivetrain.core.seeding import stream
from drivetrain.core.segments import SegmentHandle
from drivetrain.replay import Replay
from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.experience import Experience, make_experience, stored_interface
from drivetrain.train.experience.rollout import RolloutBuffer
from drivetrain.train.experience.rounds.episodes import Episodes
from drivetrain.train.interface import Interface
from drivetrain.train.ledger.ledger import Ledger
from drivetrain.train.ledger.rules import Origin, Rules
from drivetrain.train.normalization import MomentsBoard
from drivetrain.train.policies.policy import first_published, num_published
from drivetrain.train.run_dir.checkpoint import load_checkpoint, load_replay
from drivetrain.train.run_dir.initial import initial_arrays
from drivetrain.train.weights import Weights

Role = Literal["actor", "learner", "evaluator"]


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Everything a child process is told; travels pickled through its standard input."""

    role: Role
    """What it is."""
    index: int
    """Which of its kind."""
    restart: int
    """How often its predecessors died."""
    config: TrainConfig
    """The run's configuration, resolved."""
    interface: Interface
    """What the environments look like."""
    run_dir: Path
    """The run's folder, absolute."""
    origin: Origin
    """Where the run begins."""
    began_s: float
    """The instant of time.monotonic() at which it would have begun, had it never been interrupted."""
    ledger: SegmentHandle
    """Steps and updates."""
    weights: SegmentHandle
    """The latest parameters."""
    experience: Any
    """Handle of the replay, or of the rollout."""
    round: SegmentHandle | None
    """What actors write in a deterministic off-policy run, whose learner puts it into the replay; else None."""
    episodes: Episodes | None
    """Where the environments are, of a deterministic run that goes on; else None."""
    moments: SegmentHandle | None
    """What actors have seen, for normalisation; None where nothing is normalised."""
    evaluated: tuple[int, int] | None
    """Steps and updates at the last evaluation of the run, for the evaluator; None: there was none."""
    recording: Path | None
    """Where it notes what it spends its time on; None: nowhere."""

    @property
    def name(self) -> str:
        """As in "actor 3"."""
        return f"actor {self.index}" if self.role == "actor" else self.role

    @property
    def rules(self) -> Rules:
        """The ledger's rules."""
        return Rules.of(self.config, self.origin)

    @property
    def stream_path(self) -> tuple[int, ...]:
        """What tells this process's random streams from those of others, and of its predecessors."""
        resumes = (self.origin.num_resumes,) if self.origin.num_resumes else ()
        return (self.index, self.restart, *resumes)


def attach_experience(assignment: Assignment) -> Experience:
    """A child's view of what the run learns from."""
    if assignment.config.on_policy:
        return RolloutBuffer.attach(assignment.experience, assignment.config, assignment.interface)
    return Replay.attach(assignment.experience)


def attach_gathered(assignment: Assignment) -> Experience:
    """A child's view of what actors write: what the run learns from, or its present round."""
    if assignment.round is None:
        return attach_experience(assignment)
    interface = stored_interface(assignment.config, assignment.interface, assignment.origin)
    return RolloutBuffer.attach(assignment.round, assignment.config, interface)


def attach_weights(assignment: Assignment) -> Weights:
    """A child's view of the weights channel."""
    return Weights.attach(assignment.weights, num_published(assignment.config, assignment.interface))


def attach_moments(assignment: Assignment) -> MomentsBoard | None:
    """A child's view of what actors have seen; None where nothing is normalised."""
    if assignment.moments is None:
        return None
    return MomentsBoard.attach(assignment.moments, assignment.config, assignment.interface)


class Memory:
    """The shared memory of a run, owned by the supervisor.

    The weights channel starts with the first parameters, those of the checkpoint or those of another run, so
    that actors need not wait for the learner's framework to load.

    Args:
        config: The run's.
        interface: What its environments look like.
        origin: Where it begins.
        run_dir: Its folder, with the checkpoint that it goes on from or what it begins with.
    """

    def __init__(self, config: TrainConfig, interface: Interface, origin: Origin, run_dir: Path) -> None:
        with contextlib.ExitStack() as held:  # an error on the way lets go of what there is by then
            saved = None
            if origin.num_resumes:
                saved = load_replay(run_dir, shared=True, scratch_dir=config.replay.scratch_dir)
            self.experience = make_experience(config, interface, shared=True) if saved is None else saved
            held.callback(self.experience.close)
            self.ledger = Ledger.create(Rules.of(config, origin), config.num_actors, origin)
            held.callback(self.ledger.close)
            self.weights = Weights.create(num_published(config, interface))
            held.callback(self.weights.close)
            if (moments := MomentsBoard.create(config, interface)) is not None:
                held.callback(moments.close)
            self.moments = moments
            self.round: RolloutBuffer | None = None
            if config.run.deterministic and not config.on_policy:
                self.round = RolloutBuffer.create(config, stored_interface(config, interface, origin), shared=True)
                held.callback(self.round.close)
            self.episodes: Episodes | None = None
            self._begin(config, interface, origin, run_dir)
            self._held = held.pop_all()

    def _begin(self, config: TrainConfig, interface: Interface, origin: Origin, run_dir: Path) -> None:
        """Publish what the run begins with."""
        checkpoint = load_checkpoint(run_dir)[0] if origin.num_resumes else None
        if checkpoint is not None and config.run.deterministic:
            self.episodes = Episodes.of(checkpoint)
        arrays = initial_arrays(config, run_dir, origin) if checkpoint is None else checkpoint
        if arrays is None:
            vector = first_published(config, interface, stream(config.run.seed, "network"))
        else:
            vector = arrays["params"]
            if self.moments is not None:
                self.moments.publish_all(arrays["moments"])
        self.weights.publish(vector.astype(np.float32), origin.num_updates)

    def close(self) -> None:
        """Let go of it; the kernel frees it with the last process that holds it."""
        self._held.close()
