"""Environments whose numbers are a thousand times as large, for the tests of normalisation."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers import TransformObservation, TransformReward


def cart_pole():
    """CartPole: observations times 1,000, and 500 beside their middle."""
    return TransformObservation(
        gymnasium.make("CartPole-v1"), lambda obs: 1_000 * obs + 500, Box(-np.inf, np.inf, (4,))
    )


def pendulum():
    """Pendulum: observations and rewards times 1,000."""
    env = TransformObservation(gymnasium.make("Pendulum-v1"), lambda obs: 1_000 * obs, Box(-np.inf, np.inf, (3,)))
    return TransformReward(env, lambda reward: 1_000 * reward)
