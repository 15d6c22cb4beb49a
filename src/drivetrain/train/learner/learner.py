"""The learner: draws from the replay, updates the network, writes priorities back and has weights to publish.

begin    replay -> sample [U, B] -> a call of updates, which the devices do by themselves
finish   wait for the oldest call -> priorities -> replay;  its weights -> everybody
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import importlib
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from numpy.typing import NDArray

from drivetrain.replay import Replay, Sample
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.learner.divergence import require_numbers
from drivetrain.train.learner.learned import Learned
from drivetrain.train.learner.on_policy.learner import RolloutLearner
from drivetrain.train.learner.sharing import Learners, for_everyone
from drivetrain.train.learner.states import owned
from drivetrain.train.learner.updates import Algorithm, Batch, Metrics, compile_updates, empty_batches, means_of
from drivetrain.train.ledger.rules import Origin
from drivetrain.train.policies.embeddings import Encoders, embedded
from drivetrain.train.run_dir.archives import Arrays
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from drivetrain.train.run_dir.initial import initial_arrays
from drivetrain.train.telemetry.recording import BACKPROPAGATION, REPLAY


class Call(NamedTuple):
    """Some updates that the devices are at, or through with; arrays are looked at when they are asked for."""

    keys: NDArray[np.uint64]
    """Of the transitions drawn, [updates, batch]."""
    td_errors: jax.Array
    """|TD error| of each, [updates_per_call, batch]: the new priorities."""
    metrics: Metrics
    """Means over the updates."""
    policy: jax.Array
    """The acting network's parameters after them."""


class Learner:
    """The algorithm's compiled updates, and what is learned by them.

    What it gives is of the last call that is finished; another one may be begun by then.

    Args:
        config: The run's.
        interface: What the environment looks like.
        encoders: Where they are frozen: the replay keeps what they give, and the layers above learn.
    """

    def __init__(self, config: TrainConfig, interface: Interface, encoders: Encoders | None = None) -> None:
        module: Any = importlib.import_module(f"drivetrain.train.algos.{config.algo}")
        self._config = config
        self._interface = interface if encoders is None else embedded(config, interface)
        algorithm: Algorithm = module.make(config, self._interface)
        self.learned = Learned(algorithm.init, algorithm.policy, config, interface, encoders)
        """By all updates so far."""
        self._updates = compile_updates(algorithm, Learners(config.num_learners), same_bits=config.run.in_one_order)
        self.most_begun = 1 if config.replay.prioritized else 2
        """Calls to be begun at a time: a second one waits, unless its draw needs the first's priorities."""
        self._begun: deque[Call] = deque()
        self._metrics: Metrics = {}

    def compile(self) -> None:
        """Compile the updates now, before data is there; leaves the state as it is."""
        state = for_everyone(owned(self.learned.state), Learners(self._config.num_learners))
        self._updates(state, empty_batches(self._config, self._interface), np.int32(0))

    def observe(self, moments: NDArray[np.float64]) -> None:
        """Normalise by what the environments have shown so far, see `normalization.moments`."""
        self.learned.statistics.take(moments)

    def learn(self, replay: Replay, count: int, progress: float) -> None:
        """Begin a call of updates and finish it, see there."""
        self.begin(replay, count, progress)
        self.finish(replay)

    def begin(self, replay: Replay, count: int, progress: float) -> None:
        """Draw for `count` updates and have the devices do them, after those begun before; does not wait for them.

        Args:
            replay: Is drawn from.
            count: In 1..updates_per_call.
            progress: Share of the run that is done, for the importance correction.
        """
        beta = self._config.replay.beta_at(progress)
        with REPLAY:
            sample = replay.sample(self._config.updates.batch_size, beta=beta, num_batches=count)
        with BACKPROPAGATION:
            state, td_errors, metrics, policy = self._updates(
                self.learned.state, self._batches(sample), np.int32(len(sample.weights))
            )
            self.learned.begin(state)
            self._begun.append(Call(sample.keys, td_errors, metrics, policy))

    def finish(self, replay: Replay) -> None:
        """Wait for the oldest call begun, and write its priorities back.

        Args:
            replay: It was drawn from; its priorities change.

        Raises:
            RunError: Learning has diverged.
        """
        with BACKPROPAGATION:
            call = jax.block_until_ready(self._begun.popleft())
            self.learned.finish(len(call.keys), call.policy)
        self._metrics = call.metrics
        priorities = np.asarray(call.td_errors)[: len(call.keys)]
        require_numbers(priorities, self.learned.num_updates, "TD errors")
        if self._config.replay.prioritized:
            with REPLAY:
                replay.update_priorities(call.keys, priorities)

    @property
    def metrics(self) -> dict[str, float]:
        """Means over the last call's updates; none before the first."""
        return means_of(self._metrics)

    def _batches(self, sample: Sample) -> Batch:
        data, statistics = sample.data, self.learned.statistics
        batches = Batch(
            obs=statistics.observations(data["obs"]),
            action=np.asarray(data["action"], self._interface.learned_action_dtype),
            reward=statistics.rewards(data["reward"], self._config.replay.num_step),
            next_obs=statistics.observations(data["next_obs"]),
            discount=data["discount"],
            weights=sample.weights,
        )
        missing = self._config.updates.updates_per_call - len(sample.weights)
        if missing == 0:
            return batches
        return jax.tree.map(lambda x: np.concatenate([x, np.zeros((missing, *x.shape[1:]), x.dtype)]), batches)


class AnyLearner(Protocol):
    """What a `Learner`, which draws from a replay, and a `RolloutLearner`, which reads a rollout, do alike."""

    learned: Learned
    """By all updates so far."""
    most_begun: int
    """Calls to be begun at a time."""

    def compile(self) -> None:
        """Compile the updates now, before data is there; leaves the state as it is."""
        ...

    def observe(self, moments: NDArray[np.float64], /) -> None:
        """Normalise by what the environments have shown so far."""
        ...

    def learn(self, source: Any, count: int, progress: float, /) -> None:
        """Begin a call of updates and finish it."""
        ...

    def begin(self, source: Any, count: int, progress: float, /) -> None:
        """Have the devices do `count` updates from `source`, without waiting for them."""
        ...

    def finish(self, source: Any, /) -> None:
        """Wait for the oldest call begun."""
        ...

    @property
    def metrics(self) -> dict[str, float]:
        """Means over the last call's updates; none before the first."""
        ...


class Begun(NamedTuple):
    """A learner that has what the run begins or goes on with."""

    learner: AnyLearner
    """It."""
    encoders: Encoders | None
    """Where they are frozen."""
    checkpoint: Arrays | None
    """What the checkpoint holds, if there is one to go on from."""


def begun_learner(config: TrainConfig, interface: Interface, run_dir: Path, origin: Origin) -> Begun:
    """The learner of a run, with its checkpoint's state, or what the run begins with of another's.

    Args:
        config: The run's.
        interface: What the environment looks like.
        run_dir: The run's folder.
        origin: Where it begins.

    Raises:
        FileFormatError: What there has to be in the folder is not, or does not fit.
    """
    checkpoint = load_checkpoint(run_dir)[0] if origin.num_resumes else None
    encoders = Encoders.frozen(config, interface, checkpoint)
    learner = make_learner(config, interface, encoders)
    if checkpoint is not None:
        learner.learned.restore(checkpoint)
    elif (initial := initial_arrays(config, run_dir, origin)) is not None:
        learner.learned.begin_with(initial)
    return Begun(learner, encoders, checkpoint)


def make_learner(config: TrainConfig, interface: Interface, encoders: Encoders | None = None) -> AnyLearner:
    """The learner of a run, by how its algorithm learns."""
    if config.on_policy:
        return RolloutLearner(config, interface)
    return Learner(config, interface, encoders)
