"""What a forward pass was for: inference, or part of an update.

A framework's hook cannot know when a forward pass begins; what follows it tells. A forward pass belongs to an
update if its thread's next backward pass comes before its next step of a simulator.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.sites import FORWARD, Site


class Following(NamedTuple):
    """What comes next after each begin event of a thread: its next backward pass, or its next step of a simulator.

    Neither, where the thread ends before.
    """

    is_update: NDArray[np.bool_]
    is_step: NDArray[np.bool_]
    simulates: bool
    """Whether the thread steps a simulator at all: one that is part of a jitted function is seen by nobody."""


def following(begin: NDArray[np.int64], site: NDArray[np.int32], sites: tuple[Site, ...]) -> Following:
    """Look ahead from every begin event.

    Args:
        begin: Positions of the thread's begin events, ascending.
        site: Site of each of them.
        sites: What the sites are.
    """
    simulates = np.array([site.operation == "simulation" for site in sites])[site]
    updates = np.array(["backpropagation" in (site.operation, site.presumed) for site in sites])[site]
    update, step = _next(begin, begin[updates]), _next(begin, begin[simulates])
    return Following(update < step, step < update, bool(simulates.any()))


def has_forward(sites: tuple[Site, ...]) -> bool:
    """Whether there is anything to decide."""
    return any(FORWARD in (site.operation, site.presumed) for site in sites)


def _next(positions: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first of `among` at or after each position; beyond all positions where there is none."""
    return np.append(among, np.iinfo(np.int64).max)[np.searchsorted(among, positions)]
