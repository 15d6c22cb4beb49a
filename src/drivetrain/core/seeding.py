"""Random streams by purpose: one run seed, and every user of chance gets a stream of its own.

Episode seeds (what `env.reset(seed=...)` takes) carry their purpose in their top bits, so the
seeds of training, of selecting the best policy and of the final evaluation are disjoint for any
seeds of any runs, not merely unlikely to meet.
"""

from typing import Literal

import numpy as np

Purpose = Literal["training", "selection", "final", "exploration", "network", "replay", "domain", "goals"]
_PURPOSES: dict[Purpose, int] = {
    "training": 0,
    "selection": 1,
    "final": 2,
    "exploration": 3,
    "network": 4,
    "replay": 5,
    "domain": 6,
    "goals": 7,
}
_PURPOSE_SHIFT = 28  # 3 bits of purpose above 28 bits of chance: below 2^31, which every env takes
MOST_EPISODES = 1 << _PURPOSE_SHIFT
"""Episodes of one purpose that can have seeds of their own."""


def stream(seed: int, purpose: Purpose, *path: int) -> np.random.Generator:
    """An independent generator for one purpose of a run.

    Args:
        seed: The run's seed, at least 0.
        purpose: Who draws from it.
        path: Numbers that tell apart several users of one purpose, as (actor, restart).
    """
    return np.random.Generator(np.random.PCG64(_sequence(seed, purpose, path)))


class StepStream:
    """A stream that begins anew at every step: what is drawn at step t depends on nothing that was drawn before.

    Philox, whose counter is set to the step; another one for each seed, purpose and path, as in `stream`.
    """

    def __init__(self, seed: int, purpose: Purpose, *path: int) -> None:
        key = _sequence(seed, purpose, path).generate_state(2, np.uint64)
        self._philox = np.random.Philox(key=key)
        self._state = self._philox.state  # as it is at counter 0, with nothing drawn ahead
        self._generator = np.random.Generator(self._philox)

    def at(self, step: int) -> np.random.Generator:
        """The generator of a step, in 0..2^64 - 1; valid until the next call."""
        self._state["state"]["counter"][:] = (0, 0, 0, step)  # the words below it count what one step draws
        self._philox.state = self._state
        return self._generator


def _sequence(seed: int, purpose: Purpose, path: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(_PURPOSES[purpose], *path))


def episode_seeds(seed: int, purpose: Purpose, num_episodes: int, *path: int) -> list[int]:
    """Distinct seeds for environments; disjoint between purposes.

    Args:
        seed: The run's seed, at least 0.
        purpose: Decides the top bits of every seed.
        num_episodes: How many seeds, in 0..2^28.
        path: As in `stream`.
    """
    rng = stream(seed, purpose, *path)
    drawn = rng.choice(MOST_EPISODES, size=num_episodes, replace=False, shuffle=False)
    return [(_PURPOSES[purpose] << _PURPOSE_SHIFT) | int(number) for number in drawn]
