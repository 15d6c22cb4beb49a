"""What a run has learned so far: the algorithm's state, the policy to publish, and what observations are normalised by.

a call is begun      state: at once the call's, which the devices may still be at
a call is finished   vector, num_updates: what everybody else sees
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from drivetrain.core.seeding import stream
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.learner.divergence import require_numbers
from drivetrain.train.learner.sharing import Learners, for_everyone
from drivetrain.train.learner.states import owned, restored, saved
from drivetrain.train.normalization import Statistics
from drivetrain.train.policies.embeddings import Encoders


class Learned:
    """What a learner keeps from call to call; it fills this, and others read it.

    Args:
        init: Draws the algorithm's first state.
        policy_of: The acting network's parameters in a state of it.
        config: The run's.
        interface: What the environment looks like.
        encoders: Frozen ones, which are published and saved with the rest.
    """

    def __init__(
        self,
        init: Callable[[np.random.Generator], Any],
        policy_of: Callable[[Any], jax.Array],
        config: TrainConfig,
        interface: Interface,
        encoders: Encoders | None = None,
    ) -> None:
        self._policy_of, self._encoders = jax.jit(policy_of), encoders
        self._learners = Learners(config.num_learners)
        state = owned(init(stream(config.run.seed, "network")))  # optimizers may keep parameters
        self.state: Any = for_everyone(state, self._learners)
        """The algorithm's, after all calls that were begun."""
        self.statistics = Statistics(config, interface)
        """What observations and rewards are normalised by."""
        self.num_updates = 0
        """Updates so far, of finished calls."""
        self._num_begun = 0  # calls under way
        self._policy: jax.Array | None = None

    def begin(self, state: Any) -> None:
        """A call is begun, at the end of which this will be the state."""
        self.state = state
        self._num_begun += 1

    def finish(self, num_updates: int, policy: jax.Array) -> None:
        """The oldest call is finished, had so many updates, and gave this acting network."""
        self._num_begun -= 1
        self.num_updates += num_updates
        self._policy = policy

    @property
    def vector(self) -> NDArray[np.float32]:
        """What is published: the acting network's parameters, then what observations are normalised by.

        Raises:
            RunError: Learning has diverged.
        """
        policy = self._policy if self._policy is not None else self._policy_of(self.state)
        weights = require_numbers(np.asarray(policy), self.num_updates, "the policy's weights")
        frozen = [self._encoders.vector] if self._encoders else []
        return np.concatenate([*frozen, weights, self.statistics.parameters])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it, for a checkpoint, when every call is finished; "params" is what is published.

        Raises:
            RunError: Learning has diverged, if only in a network that is not published. What an optimizer remembers
                may be anything.
        """
        assert self._num_begun == 0
        state = saved(self.state)
        for name, array in state.items():
            if array.dtype == np.float32 and not name.startswith("state/optimizer"):
                require_numbers(array, self.num_updates, name)
        frozen = self._encoders.arrays() if self._encoders else {}
        return {"params": self.vector, **state, **frozen, **self.statistics.arrays()}

    def begin_with(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over what another run has learned; the rest of the state is this one's own."""
        self.restore({**saved(self.state), **arrays})

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over a checkpoint of the same configuration."""
        self.state = for_everyone(restored(self.state, arrays), self._learners)
        self._policy, self.num_updates = None, int(self.state.num_updates)
        self.statistics.restore(arrays)
