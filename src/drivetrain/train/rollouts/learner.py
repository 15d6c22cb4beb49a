"""The on-policy learner: reads the rollout, does all its updates in one call.

begin    rollout -> advantages -> epochs of minibatches, which the devices do by themselves
finish   wait for it -> weights -> everybody
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import importlib
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from drivetrain.core.seeding import stream
from drivetrain.train.config import TrainConfig
from drivetrain.train.divergence import require_numbers
from drivetrain.train.interface import Interface
from drivetrain.train.normalization import Statistics
from drivetrain.train.recording import BACKPROPAGATION
from drivetrain.train.rollouts.algorithm import OnPolicyAlgorithm, compile_learning
from drivetrain.train.rollouts.buffer import Rollout, RolloutBuffer
from drivetrain.train.sharing import Learners, for_everyone
from drivetrain.train.states import restored, saved
from drivetrain.train.updates import Metrics, means_of


class RolloutLearner:
    """The algorithm's state and its compiled call.

    Args:
        config: The run's.
        interface: What the environment looks like.
    """

    def __init__(self, config: TrainConfig, interface: Interface) -> None:
        module: Any = importlib.import_module(f"drivetrain.train.algos.{config.algo}")
        self._algorithm: OnPolicyAlgorithm = module.make(config, interface)
        self._config = config
        self._interface = interface
        self._statistics = Statistics(config, interface)
        self._acted_by = self._statistics.parameters
        self._learners = Learners(config.num_learners)
        self._state: Any = for_everyone(self._algorithm.init(stream(config.run.seed, "network")), self._learners)
        self._learn = compile_learning(self._algorithm, self._learners)
        self._metrics: Metrics = {}
        self._policy: jax.Array | None = None
        self.num_updates = 0
        """Updates so far."""

    def compile(self) -> None:
        """Compile the call now, before data is there; leaves the state as it is."""
        state = jax.tree.map(lambda x: x.copy(), self._state)
        nothing = RolloutBuffer.create(self._config, self._interface, shared=False)
        jax.block_until_ready(self._learn(state, nothing.rollout, np.float32(0)))

    def observe(self, moments: NDArray[np.float64]) -> None:
        """Normalise by what the environments have shown so far, see `normalization.moments`.

        Rewards of the next rollout are; its observations by what its actions were chosen by, so that the
        ratio of new to old policy starts at 1. But the first rollout's, chosen when nothing was known, are learned
        from as they will be shown from then on: a new policy looks at them but little.
        """
        unknown = self._statistics.is_empty
        self._acted_by = self._statistics.parameters
        self._statistics.take(moments)
        if unknown:
            self._acted_by = self._statistics.parameters

    def learn(self, source: RolloutBuffer, count: int, progress: float) -> None:
        """Do all updates of the rollout in `source`, see `begin`."""
        self.begin(source, count, progress)
        self.finish(source)

    @BACKPROPAGATION
    def begin(self, source: RolloutBuffer, count: int, progress: float) -> None:
        """Have the devices do all updates of the rollout in `source`.

        Args:
            source: Is read until `finish` returns; may be overwritten then.
            count: How many that is.
            progress: Share of the run that is done, this rollout included.
        """
        assert count == self._config.updates_per_rollout
        rollout = self._normalized(source.rollout)
        self._state, self._metrics, self._policy = self._learn(self._state, rollout, np.float32(progress))

    @BACKPROPAGATION
    def finish(self, source: RolloutBuffer) -> None:
        """Wait for what was begun."""
        del source
        jax.block_until_ready(self._policy)
        self.num_updates += self._config.updates_per_rollout

    @property
    def metrics(self) -> dict[str, float]:
        """Means over the last rollout's updates; none before the first."""
        return means_of(self._metrics)

    def _normalized(self, rollout: Rollout) -> Rollout:
        return rollout._replace(
            obs=self._statistics.observations(rollout.obs, self._acted_by),
            last_obs=self._statistics.observations(rollout.last_obs, self._acted_by),
            reward=self._statistics.rewards(rollout.reward),
        )

    @property
    def vector(self) -> NDArray[np.float32]:
        """What is published: the acting network's parameters, then what observations are normalised by.

        Raises:
            RunError: Learning has diverged.
        """
        policy = self._policy if self._policy is not None else self._algorithm.policy(self._state)
        weights = require_numbers(np.asarray(policy), self.num_updates, "the policy's weights")
        return np.concatenate([weights, self._statistics.parameters])

    @property
    def moments(self) -> NDArray[np.float64]:
        """What it was told last by `observe`."""
        return self._statistics.table

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of the state, for a checkpoint; "params" is what is published."""
        return {"params": self.vector, **saved(self._state), **self._statistics.arrays()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state of a checkpoint of the same configuration."""
        self._state = for_everyone(restored(self._state, arrays), self._learners)
        self._policy, self.num_updates = None, int(self._state.num_updates)
        self._statistics.restore(arrays)
