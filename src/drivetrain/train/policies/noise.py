"""Exploration noise that remembers: an Ornstein-Uhlenbeck process per environment, in discrete time."""

import math

import numpy as np
from numpy.typing import NDArray


class CorrelatedNoise:
    """Standard normal numbers of which those of one step depend on those of the step before.

        noise[t] = c * noise[t - 1] + sqrt(1 - c^2) * fresh[t],    noise[0] = fresh[0]

    Each number by itself is standard normal at every step, so a policy's deviation stays what it is; only its
    direction lasts, for about 1 / (1 - c) steps. This is the process of Lillicrap et al. 2016 (arXiv:1509.02971,
    section 3), there with theta = 1 - c and begun at zero.

    Args:
        correlation: c, in 0..1 without 1.
        num_envs: Environments.
        num_actions: Dimensions of an action.
    """

    def __init__(self, correlation: float, num_envs: int, num_actions: int) -> None:
        self._kept = np.float32(correlation)
        self._fresh = np.float32(math.sqrt(1.0 - correlation * correlation))
        self._noise = np.zeros((num_envs, num_actions), np.float32)
        self._begins = np.ones(num_envs, np.bool_)

    def begin(self, env: int) -> None:
        """An episode begins: its first noise depends on none before."""
        self._begins[env] = True

    def next(self, rng: np.random.Generator, first: int, count: int) -> NDArray[np.float32]:
        """The noise of the next step of some environments, [count, num_actions]; others keep theirs.

        Args:
            rng: What fresh numbers are drawn from.
            first: The first of these environments.
            count: How many.
        """
        envs = slice(first, first + count)
        fresh = rng.standard_normal((count, self._noise.shape[1]), np.float32)
        follows = self._kept * self._noise[envs] + self._fresh * fresh
        self._noise[envs] = np.where(self._begins[envs, None], fresh, follows)
        self._begins[envs] = False
        return self._noise[envs].copy()
