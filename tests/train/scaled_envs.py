"""Environments whose numbers are thousands of times as large, for the tests of normalisation."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers import TransformObservation, TransformReward


def cart_pole():
    """CartPole: observations times 10,000, and 5,000 beside their middle."""
    return TransformObservation(
        gymnasium.make("CartPole-v1"), lambda obs: 10_000 * obs + 5_000, Box(-np.inf, np.inf, (4,))
    )


def pendulum():
    """Pendulum: observations times 10,000, rewards times 1,000."""
    env = TransformObservation(gymnasium.make("Pendulum-v1"), lambda obs: 10_000 * obs, Box(-np.inf, np.inf, (3,)))
    return TransformReward(env, lambda reward: 1_000 * reward)
