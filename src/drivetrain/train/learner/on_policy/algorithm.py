"""An on-policy algorithm as a record of pure functions, and the learning from a rollout in one compiled call.

algos/X.make(config, interface)       -> OnPolicyAlgorithm(init, learn, policy)
compile_learning(algorithm, learners) -> learn(state, rollout, progress): state, metrics, policy

With M learners each holds the whole state and the whole rollout, and has B / M rows of every minibatch (as
learner/sharing.py says).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from drivetrain.train.experience.rollout import Rollout
from drivetrain.train.learner.sharing import ONE_LEARNER, WHOLE, Learners, compiled
from drivetrain.train.learner.updates import Metrics


class OnPolicyAlgorithm(NamedTuple):
    """An on-policy algorithm for one network and one environment's interface."""

    init: Callable[[np.random.Generator], Any]
    """The state before the first update: a NamedTuple of arrays with an int32 `num_updates`. The
    generator gives the acting network's parameters first, as its `initial` draws them."""
    learn: Callable[[Any, Rollout, Any, Learners], tuple[Any, Metrics]]
    """All updates of one rollout, after a share of the run in 0..1: the new state, metrics, the same for every
    learner. Pure."""
    policy: Callable[[Any], jax.Array]
    """The acting network's parameters in a state, as one vector (`networks.pack`). Pure."""


def compile_learning(
    algorithm: OnPolicyAlgorithm, learners: Learners = ONE_LEARNER, *, same_bits: bool = False
) -> Callable[[Any, Rollout, Any], tuple[Any, Metrics, jax.Array]]:
    """Compile `learn(state, rollout, progress)`: all updates of a rollout in one call; the old state is donated.

    Args:
        algorithm: Whose updates.
        learners: They must divide the minibatches, and there must be as many devices; give it a state that was made
            ready by `sharing.for_everyone`.
        same_bits: See `sharing.compiled`.
    """

    def learn(state: Any, rollout: Rollout, progress: Any) -> tuple[Any, Metrics, jax.Array]:
        state, metrics = algorithm.learn(state, rollout, progress, learners)
        return state, metrics, algorithm.policy(state)

    return compiled(learn, learners, (WHOLE, WHOLE, WHOLE), (WHOLE, WHOLE, WHOLE), same_bits=same_bits)
