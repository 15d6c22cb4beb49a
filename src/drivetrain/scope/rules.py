"""What a forward pass was for: inference, or part of an update.

A framework's hook cannot know when a forward pass begins; what follows it tells. A forward pass belongs to an
update if its thread's next backward pass comes before its next step of a simulator.
"""

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.sites import FORWARD, Site


def is_update(begin: NDArray[np.int64], site: NDArray[np.int32], sites: tuple[Site, ...]) -> NDArray[np.bool_]:
    """For every begin event of a thread, whether a forward pass there would belong to an update.

    Args:
        begin: Positions of the thread's begin events, ascending.
        site: Site of each of them.
        sites: What the sites are.
    """
    simulates = np.array([site.operation == "simulation" for site in sites])[site]
    updates = np.array([site.operation == "backpropagation" for site in sites])[site]
    return _next(begin, begin[updates]) < _next(begin, begin[simulates])


def has_forward(sites: tuple[Site, ...]) -> bool:
    """Whether there is anything to decide."""
    return any(site.operation == FORWARD for site in sites)


def _next(positions: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first of `among` at or after each position; beyond all positions where there is none."""
    return np.append(among, np.iinfo(np.int64).max)[np.searchsorted(among, positions)]
