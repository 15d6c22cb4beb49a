"""Who works on a run, and what they share.

    supervisor (owns the memory, is never on the data path)
    |-- actor 0..A-1   weights -> replay, ledger
    |-- learner        replay -> weights, ledger
    `-- evaluator      weights -> RUN/best

Each child has a pipe of its own to the supervisor, for reports.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from drivetrain.core.seeding import stream
from drivetrain.core.segments import SegmentHandle
from drivetrain.replay import Replay
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.ledger import Ledger, Rules
from drivetrain.train.networks import initial_vector
from drivetrain.train.policies import policy_network
from drivetrain.train.reports import Reports
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
    supervisor_pid: int
    """With whom it dies."""
    config: TrainConfig
    """The run's configuration, resolved."""
    interface: Interface
    """What the environments look like."""
    run_dir: Path
    """The run's folder, absolute."""
    ledger: SegmentHandle
    """Steps and updates."""
    weights: SegmentHandle
    """The latest parameters."""
    replay: Any
    """Handle of the replay."""
    reports: Reports
    """Its pipe to the supervisor."""


def make_replay(config: TrainConfig, interface: Interface, *, shared: bool) -> Replay:
    """The replay of a run."""
    seed = stream(config.run.seed, "replay").integers(0, 2**31)
    return Replay(
        config.replay.capacity,
        spec={"obs": interface.observations.stored, "action": interface.stored_action},
        prioritized=config.replay.prioritized,
        alpha=config.replay.alpha,
        num_step=config.replay.num_step,
        gamma=config.updates.gamma,
        share_next_obs=interface.has_images,  # half the memory; for small rows links cost more than they save
        frame_stack=interface.frame_stack,
        shared=shared,
        seed=int(seed),
    )


def attach_weights(assignment: Assignment) -> Weights:
    """A child's view of the weights channel."""
    return Weights.attach(assignment.weights, policy_network(assignment.config, assignment.interface).num_parameters)


class Memory:
    """The shared memory of a run, owned by the supervisor.

    The weights channel starts with the initial parameters, so that actors need not wait for the
    learner's framework to load.
    """

    def __init__(self, config: TrainConfig, interface: Interface) -> None:
        network = policy_network(config, interface)
        self.replay = make_replay(config, interface, shared=True)
        self.ledger = Ledger.create(Rules.of(config), config.num_actors)
        self.weights = Weights.create(network.num_parameters)
        vector = initial_vector(network, stream(config.run.seed, "network"))
        self.weights.publish(vector.astype(np.float32), 0)

    def close(self) -> None:
        """Let go of it; the kernel frees it with the last process that holds it."""
        self.replay.close()
        self.ledger.close()
        self.weights.close()
