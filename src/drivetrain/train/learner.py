"""The learner: draws from the replay, updates the network, publishes weights and priorities.

replay -> sample [U, B] -> update -> priorities -> replay;  weights -> everybody
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import importlib
import os
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from drivetrain.core.caches import user_cache
from drivetrain.core.machine import num_cores
from drivetrain.core.seeding import stream
from drivetrain.replay import Replay, Sample
from drivetrain.train.config import TrainConfig
from drivetrain.train.divergence import require_numbers
from drivetrain.train.embeddings import Encoders, embedded
from drivetrain.train.interface import Interface
from drivetrain.train.networks import pack
from drivetrain.train.normalization import Statistics
from drivetrain.train.policies import policy_network
from drivetrain.train.recording import BACKPROPAGATION, REPLAY
from drivetrain.train.rollouts.learner import RolloutLearner
from drivetrain.train.sharing import Learners, for_everyone
from drivetrain.train.states import restored, saved
from drivetrain.train.updates import Algorithm, Batch, compile_updates, owned


class Update(NamedTuple):
    """What some updates gave."""

    td_errors: NDArray[np.float32]
    """|TD error| of every drawn transition, [updates, batch]: the new priorities."""
    metrics: dict[str, float]
    """Means over the updates."""


class Learner:
    """The algorithm's state and its compiled updates.

    Args:
        config: The run's.
        interface: What the environment looks like.
        encoders: Where they are frozen: the replay keeps what they give, and the layers above learn.
    """

    def __init__(self, config: TrainConfig, interface: Interface, encoders: Encoders | None = None) -> None:
        module: Any = importlib.import_module(f"drivetrain.train.algos.{config.algo}")
        self._encoders = encoders
        self._config = config
        self._interface = interface if encoders is None else embedded(config, interface)
        self._algorithm: Algorithm = module.make(config, self._interface)
        self._network = policy_network(config, interface)
        self._statistics = Statistics(config, interface)
        self._learners = Learners(config.num_learners)
        self._state: Any = for_everyone(self._algorithm.init(stream(config.run.seed, "network")), self._learners)
        self._updates = compile_updates(self._algorithm, self._learners)

    def compile(self) -> None:
        """Compile the updates now, before data is there; leaves the state as it is."""
        num_rows = (self._config.updates.updates_per_call, self._config.updates.batch_size)
        obs, action = self._interface.zero_observations(*num_rows), self._interface.zero_actions(*num_rows)
        row = np.zeros(num_rows, np.float32)
        state = for_everyone(owned(self._state), self._learners)
        self._updates(state, Batch(obs, action, row, obs, row, row), np.int32(0))

    def observe(self, moments: NDArray[np.float64]) -> None:
        """Normalise by what the environments have shown so far, see `normalization.moments`."""
        self._statistics.take(moments)

    def learn(self, replay: Replay, count: int, progress: float) -> dict[str, float]:
        """`count` updates: draw, update, write the priorities back.

        Args:
            replay: Is drawn from; its priorities change.
            count: In 1..updates_per_call.
            progress: Share of the run that is done, for the importance correction.

        Returns:
            Means of the metrics over the updates.

        Raises:
            RunError: Learning has diverged.
        """
        beta = self._config.replay.beta_at(progress)
        with REPLAY:
            sample = replay.sample(self._config.updates.batch_size, beta=beta, num_batches=count)
        update = self.update(sample)
        if self._config.replay.prioritized:
            require_numbers(update.td_errors, self.num_updates, "TD errors")
            with REPLAY:
                replay.update_priorities(sample.keys, update.td_errors)
        return update.metrics

    @BACKPROPAGATION
    def update(self, sample: Sample) -> Update:
        """Do one update per batch of a sample with leading axes [updates, batch].

        At most updates_per_call of them.
        """
        count = len(sample.weights)
        batches = self._batches(sample)
        self._state, td_errors, metrics = self._updates(self._state, batches, np.int32(count))
        means = {name: np.asarray(value).item() for name, value in metrics.items()}  # `float` takes ten times as long
        return Update(np.asarray(td_errors)[:count], means)

    @property
    def vector(self) -> NDArray[np.float32]:
        """What is published, a copy: the acting network's parameters, then what observations are normalised by.

        Raises:
            RunError: Learning has diverged.
        """
        frozen = self._encoders.acting if self._encoders else {}
        weights = pack(self._network, {**frozen, **self._algorithm.policy(self._state)})
        require_numbers(weights, self.num_updates, "the policy's weights")
        return np.concatenate([weights, self._statistics.parameters])

    @property
    def moments(self) -> NDArray[np.float64]:
        """What it was told last by `observe`."""
        return self._statistics.table

    @property
    def num_updates(self) -> int:
        """Updates so far."""
        return int(self._state.num_updates)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of the state, for a checkpoint; "params" is what is published."""
        frozen = self._encoders.arrays() if self._encoders else {}
        return {"params": self.vector, **saved(self._state), **frozen, **self._statistics.arrays()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state of a checkpoint of the same configuration."""
        self._state = for_everyone(restored(self._state, arrays), self._learners)
        self._statistics.restore(arrays)

    def _batches(self, sample: Sample) -> Batch:
        data = sample.data
        batches = Batch(
            obs=self._statistics.observations(data["obs"]),
            action=np.asarray(data["action"], self._interface.learned_action_dtype),
            reward=self._statistics.rewards(data["reward"], self._config.replay.num_step),
            next_obs=self._statistics.observations(data["next_obs"]),
            discount=data["discount"],
            weights=sample.weights,
        )
        missing = self._config.updates.updates_per_call - len(sample.weights)
        if missing == 0:
            return batches
        return jax.tree.map(lambda x: np.concatenate([x, np.zeros((missing, *x.shape[1:]), x.dtype)]), batches)


def make_learner(config: TrainConfig, interface: Interface, encoders: Encoders | None = None) -> Any:
    """The learner of a run: a `Learner`, or a `RolloutLearner`, which has the same methods."""
    if config.on_policy:
        return RolloutLearner(config, interface)
    return Learner(config, interface, encoders)


def use_compilation_cache() -> None:
    """Keep compiled updates in the user's cache folder, so that the next run starts faster.

    One folder per number of threads: XLA compiles for the threads it will have, but leaves that
    number out of the key under which it looks a program up. An update compiled for two threads
    took 1.4 times as long on one.

    Does nothing where the user has chosen a folder (JAX_COMPILATION_CACHE_DIR).
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    threads = os.environ.get("PJRT_NPROC") or num_cores()
    jax.config.update("jax_compilation_cache_dir", str(user_cache(f"jax-{threads}-threads")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
