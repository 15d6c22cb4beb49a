"""An on-policy algorithm as a record of pure functions.

algos/X.make(config, interface) -> OnPolicyAlgorithm(init, learn, policy)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from drivetrain.train.networks import Pieces
from drivetrain.train.rollouts.buffer import Rollout
from drivetrain.train.updates import Metrics


class OnPolicyAlgorithm(NamedTuple):
    """An on-policy algorithm for one network and one environment's interface."""

    init: Callable[[np.random.Generator], Any]
    """The state before the first update: a NamedTuple of arrays with an int32 `num_updates`. The
    generator gives the acting network's parameters first, as its `initial` draws them."""
    learn: Callable[[Any, Rollout, Any], tuple[Any, Metrics]]
    """All updates of one rollout, after a share of the run in 0..1: the new state, metrics. Pure."""
    policy: Callable[[Any], Pieces]
    """The acting network's parameters in a state."""
