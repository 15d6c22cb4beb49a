"""The on-policy learner: reads the rollout, does all its updates in one call.

rollout -> advantages -> epochs of minibatches -> weights -> everybody
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
from drivetrain.train.interface import Interface
from drivetrain.train.networks import pack
from drivetrain.train.policies import policy_network
from drivetrain.train.rollouts.algorithm import OnPolicyAlgorithm
from drivetrain.train.rollouts.buffer import RolloutBuffer
from drivetrain.train.states import restored, saved


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
        self._network = policy_network(config, interface)
        self._state: Any = self._algorithm.init(stream(config.run.seed, "network"))
        self._learn = jax.jit(self._algorithm.learn, donate_argnums=0)

    def compile(self) -> None:
        """Compile the call now, before data is there; leaves the state as it is."""
        state = jax.tree.map(lambda x: x.copy(), self._state)
        nothing = RolloutBuffer.create(self._config, self._interface, shared=False)
        jax.block_until_ready(self._learn(state, nothing.rollout, np.float32(0)))

    def learn(self, source: RolloutBuffer, count: int, progress: float) -> dict[str, float]:
        """Do all updates of the rollout in `source`.

        Args:
            source: Is read; may be overwritten once this returns.
            count: How many that is.
            progress: Share of the run that is done, this rollout included.

        Returns:
            Means of the metrics over the updates.
        """
        assert count == self._config.updates_per_rollout
        self._state, metrics = self._learn(self._state, source.rollout, np.float32(progress))
        return {name: float(value) for name, value in metrics.items()}

    @property
    def vector(self) -> NDArray[np.float32]:
        """The acting network's parameters, a copy."""
        return pack(self._network, self._algorithm.policy(self._state))

    @property
    def num_updates(self) -> int:
        """Updates so far."""
        return int(self._state.num_updates)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of the state, for a checkpoint; "params" is the acting network's vector."""
        return {"params": self.vector, **saved(self._state)}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state of a checkpoint of the same configuration."""
        self._state = restored(self._state, arrays)
