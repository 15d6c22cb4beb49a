"""Who works on a run, and what they share.

    supervisor (owns the memory, is never on the data path)
    |-- actor 0..A-1   weights -> replay (on-policy: rollout), ledger
    |-- learner        replay (rollout) -> weights, ledger
    `-- evaluator      weights -> RUN/best

Each child has a pipe of its own to the supervisor, for reports.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from drivetrain.core.seeding import stream
from drivetrain.core.segments import SegmentHandle, require_memory
from drivetrain.replay import Replay, memory_report
from drivetrain.train.checkpoint import load_checkpoint, load_replay
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.ledger import Ledger
from drivetrain.train.normalization import MomentsBoard
from drivetrain.train.policies.embeddings import embedded
from drivetrain.train.policies.policy import first_published, num_published
from drivetrain.train.reports import Reports
from drivetrain.train.rollouts.buffer import RolloutBuffer
from drivetrain.train.rounds.episodes import Episodes
from drivetrain.train.rules import Origin, Rules
from drivetrain.train.weights import Weights

Role = Literal["actor", "learner", "evaluator"]
Experience = Replay | RolloutBuffer
"""What actors write and the learner learns from."""


class StepWriter(Protocol):
    """Takes the steps of an actor's environments: a replay's writer, or a rollout's."""

    def add(self, *, obs: Any, action: Any, reward: Any, next_obs: Any, terminated: Any, truncated: Any) -> object:
        """Write one step of all of them, [num_envs, ...] each."""
        ...


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Everything a child process is told; travels pickled through its standard input."""

    role: Role
    """What it is."""
    index: int
    """Which of its kind."""
    restart: int
    """How often its predecessors died."""
    supervisor_pid: int
    """With whom it dies."""
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
    reports: Reports
    """Its pipe to the supervisor."""
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


def stored_interface(config: TrainConfig, interface: Interface, origin: Origin) -> Interface:
    """What is stored of an environment: what it shows, or what frozen encoders make of that."""
    return embedded(config, interface) if origin.encoder_frozen else interface


def make_experience(config: TrainConfig, interface: Interface, *, shared: bool) -> Experience:
    """What a run learns from, empty."""
    if config.on_policy:
        return RolloutBuffer.create(config, interface, shared=shared)
    return make_replay(config, interface, shared=shared)


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


def writers(experience: Experience, actor: int) -> Callable[[int], StepWriter]:
    """How an actor gets writers, for so many of its environments."""
    if isinstance(experience, RolloutBuffer):
        return lambda count: experience.writer(actor, count)
    return lambda count: experience.writer(num_envs=count)


def require_experience(config: TrainConfig, interface: Interface) -> None:
    """Refuse a replay or a rollout, or batches, that this machine cannot hold, before anything starts.

    Raises:
        SegmentError: They need more memory than is available.
    """
    if config.on_policy:
        what, remedy = f"a rollout of {config.steps_per_rollout:,} steps", "use fewer environments or a shorter rollout"
        require_memory(RolloutBuffer.nbytes_for(config, interface), what=what, remedy=remedy)
        return
    report = memory_report(**_replay_settings(config, interface))
    require_memory(report.nbytes, what=f"a replay of capacity {report.capacity}", largest=report.largest())
    rows, obs = config.updates.updates_per_call * config.updates.batch_size, _observation_nbytes(interface)
    what = f"a sample of {config.updates.updates_per_call} batches of {config.updates.batch_size} rows"
    require_memory(2 * rows * obs, what=what, remedy="use a smaller batch_size or fewer updates_per_call")


def _observation_nbytes(interface: Interface) -> int:
    """Bytes of one observation, as it is stored."""
    obs = interface.zero_observations(1)
    return sum(array.nbytes for array in (obs.values() if isinstance(obs, dict) else [obs]))


def make_replay(config: TrainConfig, interface: Interface, *, shared: bool) -> Replay:
    """What an off-policy run learns from, empty."""
    seed = stream(config.run.seed, "replay").integers(0, 2**31)
    return Replay(**_replay_settings(config, interface), shared=shared, seed=int(seed))


def _replay_settings(config: TrainConfig, interface: Interface) -> dict[str, Any]:
    return {
        "capacity": config.replay.capacity,
        "spec": {"obs": interface.observations.stored, "action": interface.stored_action},
        "prioritized": config.replay.prioritized,
        "alpha": config.replay.alpha,
        "num_step": config.replay.num_step,
        "gamma": config.updates.gamma,
        "share_next_obs": interface.shares_next_obs,
        "frame_stack": interface.frame_stack,
    }


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

    The weights channel starts with the initial parameters or those of the checkpoint, so that actors
    need not wait for the learner's framework to load.

    Args:
        config: The run's.
        interface: What its environments look like.
        origin: Where it begins.
        checkpoint: The folder whose checkpoint it goes on from; None: it is new.
    """

    def __init__(self, config: TrainConfig, interface: Interface, origin: Origin, checkpoint: Path | None) -> None:
        saved = load_replay(checkpoint, shared=True) if checkpoint else None
        self.experience = make_experience(config, interface, shared=True) if saved is None else saved
        self.ledger = Ledger.create(Rules.of(config, origin), config.num_actors, origin)
        self.weights = Weights.create(num_published(config, interface))
        self.moments = MomentsBoard.create(config, interface)
        by_rounds = config.run.deterministic and not config.on_policy
        stored = stored_interface(config, interface, origin)
        self.round = RolloutBuffer.create(config, stored, shared=True) if by_rounds else None
        self.episodes: Episodes | None = None
        if checkpoint:
            arrays = load_checkpoint(checkpoint)[0]
            vector = arrays["params"]
            if config.run.deterministic:
                self.episodes = Episodes.of(arrays)
            if self.moments is not None:
                self.moments.publish_all(arrays["moments"])
        else:
            vector = first_published(config, interface, stream(config.run.seed, "network"))
        self.weights.publish(vector.astype(np.float32), origin.num_updates)

    def close(self) -> None:
        """Let go of it; the kernel frees it with the last process that holds it."""
        self.experience.close()
        self.ledger.close()
        self.weights.close()
        for optional in (self.moments, self.round):
            if optional is not None:
                optional.close()
