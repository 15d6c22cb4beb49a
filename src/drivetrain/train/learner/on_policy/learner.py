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

from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.rollout import Rollout, RolloutBuffer
from drivetrain.train.interface import Interface
from drivetrain.train.learner.learned import Learned
from drivetrain.train.learner.on_policy.algorithm import OnPolicyAlgorithm, compile_learning
from drivetrain.train.learner.sharing import Learners
from drivetrain.train.learner.updates import Metrics, means_of
from drivetrain.train.telemetry.recording import BACKPROPAGATION


class RolloutLearner:
    """The algorithm's compiled call, and what is learned by it.

    Args:
        config: The run's.
        interface: What the environment looks like.
    """

    def __init__(self, config: TrainConfig, interface: Interface) -> None:
        module: Any = importlib.import_module(f"drivetrain.train.algos.{config.algo}")
        algorithm: OnPolicyAlgorithm = module.make(config, interface)
        self._config = config
        self._interface = interface
        self.learned = Learned(algorithm.init, algorithm.policy, config, interface)
        """By all updates so far."""
        self.most_begun = 1
        """Calls to be begun at a time: the next rollout is acted by what comes of this one."""
        self._acted_by = self.learned.statistics.parameters
        self._learn = compile_learning(algorithm, Learners(config.num_learners), same_bits=config.run.in_one_order)
        self._metrics: Metrics = {}
        self._policy: jax.Array | None = None  # of the call that was begun

    def compile(self) -> None:
        """Compile the call now, before data is there; leaves the state as it is."""
        state = jax.tree.map(lambda x: x.copy(), self.learned.state)
        nothing = RolloutBuffer.create(self._config, self._interface, shared=False)
        jax.block_until_ready(self._learn(state, nothing.rollout, np.float32(0)))

    def observe(self, moments: NDArray[np.float64]) -> None:
        """Normalise by what the environments have shown so far, see `normalization.moments`.

        Rewards of the next rollout are; its observations by what its actions were chosen by, so that the
        ratio of new to old policy starts at 1. But the first rollout's, chosen when nothing was known, are learned
        from as they will be shown from then on: a new policy looks at them but little.
        """
        statistics = self.learned.statistics
        unknown = statistics.is_empty
        self._acted_by = statistics.parameters
        statistics.take(moments)
        if unknown:
            self._acted_by = statistics.parameters

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
        state, self._metrics, self._policy = self._learn(self.learned.state, rollout, np.float32(progress))
        self.learned.begin(state)

    @BACKPROPAGATION
    def finish(self, source: RolloutBuffer) -> None:
        """Wait for what was begun."""
        del source
        assert self._policy is not None
        self.learned.finish(self._config.updates_per_rollout, jax.block_until_ready(self._policy))

    @property
    def metrics(self) -> dict[str, float]:
        """Means over the last rollout's updates; none before the first."""
        return means_of(self._metrics)

    def _normalized(self, rollout: Rollout) -> Rollout:
        statistics = self.learned.statistics
        return rollout._replace(
            obs=statistics.observations(rollout.obs, self._acted_by),
            last_obs=statistics.observations(rollout.last_obs, self._acted_by),
            reward=statistics.rewards(rollout.reward),
        )
