"""Random streams by purpose: one run seed, and every user of chance gets a stream of its own.

Episode seeds (what `env.reset(seed=...)` takes) carry their purpose in their top bits, so the
seeds of training, of selecting the best policy and of the final evaluation are disjoint for any
seeds of any runs, not merely unlikely to meet.
"""

from typing import Literal

import numpy as np

Purpose = Literal["training", "selection", "final", "exploration", "network", "replay"]
_PURPOSES: dict[Purpose, int] = {
    "training": 0,
    "selection": 1,
    "final": 2,
    "exploration": 3,
    "network": 4,
    "replay": 5,
}
_PURPOSE_SHIFT = 28  # 3 bits of purpose above 28 bits of chance: below 2^31, which every env takes


def stream(seed: int, purpose: Purpose, *path: int) -> np.random.Generator:
    """An independent generator for one purpose of a run.

    Args:
        seed: The run's seed, at least 0.
        purpose: Who draws from it.
        path: Numbers that tell apart several users of one purpose, as (actor, restart).
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(_PURPOSES[purpose], *path))
    return np.random.Generator(np.random.PCG64(sequence))


def episode_seeds(seed: int, purpose: Purpose, num_episodes: int, *path: int) -> list[int]:
    """Distinct seeds for environments; disjoint between purposes.

    Args:
        seed: The run's seed, at least 0.
        purpose: Decides the top bits of every seed.
        num_episodes: How many seeds, in 0..2^28.
        path: As in `stream`.
    """
    rng = stream(seed, purpose, *path)
    drawn = rng.choice(1 << _PURPOSE_SHIFT, size=num_episodes, replace=False, shuffle=False)
    return [(_PURPOSES[purpose] << _PURPOSE_SHIFT) | int(number) for number in drawn]
