"""From what a simulator shows to what is stored: of one environment in the kernel, of blocks of steps outside.

The same as `spaces.encoder` does for one observation of a Gymnasium environment.
"""

import functools
import operator
from types import ModuleType
from typing import Any

import numpy as np

from drivetrain.train.interface import Arrays, Categories, Entries, Entry, Observations


def stored(observations: Observations, shown: Any, lead: tuple[int, ...], xp: ModuleType) -> Arrays:
    """Observations as they are stored: [*lead, *shape] each, without a copy where types are the same.

    Args:
        observations: How they are stored.
        shown: The simulator's pytree of arrays, leading axes `lead`.
        lead: () of one observation, (num_steps, num_envs) of a block.
        xp: The array module: `numpy` or `jax.numpy`.
    """
    if not isinstance(observations, Entries):
        return _entry(observations, shown, lead, xp)
    return {
        name: _entry(entry, functools.reduce(operator.getitem, path, shown), lead, xp)
        for (name, entry), path in zip(observations.entries, observations.paths, strict=True)
    }


def _entry(entry: Entry, shown: Any, lead: tuple[int, ...], xp: ModuleType) -> Any:
    shape, dtype = entry.stored
    array = xp.asarray(shown)
    if isinstance(entry, Categories):
        array = array.reshape(*lead, -1) - np.array(entry.starts, array.dtype)
    return xp.asarray(array, dtype=dtype).reshape(*lead, *shape)
