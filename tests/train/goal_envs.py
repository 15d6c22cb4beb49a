"""Environments with goals, for tests: bits to flip until they are as wanted (Andrychowicz et al. 2017, section 3.1)."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Bits(gymnasium.Env):
    """Its functions of goals answer for one pair or for many."""

    def __init__(self, num_bits=4, goal_space=None):
        goal_space = goal_space or spaces.Box(0, 1, (num_bits,), np.float64)
        self.observation_space = spaces.Dict(
            observation=spaces.Box(0, 1, (num_bits,), np.float64), achieved_goal=goal_space, desired_goal=goal_space
        )
        self.action_space = spaces.Discrete(num_bits)
        self.num_bits = num_bits

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bits, self.wanted = (self.np_random.integers(0, 2, self.num_bits).astype(np.float64) for _ in range(2))
        self.num_steps = 0
        return self.shown(), {}

    def step(self, action):
        self.bits[action] = 1 - self.bits[action]
        self.num_steps += 1
        reached = bool(self.is_reached(self.as_goal(self.bits), self.as_goal(self.wanted)))
        shown = self.shown()
        reward = float(self.compute_reward(shown["achieved_goal"], shown["desired_goal"], {}))
        return shown, reward, reached, not reached and self.num_steps == self.num_bits, {}

    def shown(self):
        return {
            "observation": self.bits.copy(),
            "achieved_goal": self.as_goal(self.bits),
            "desired_goal": self.as_goal(self.wanted),
        }

    def as_goal(self, bits):
        return bits.copy()

    def is_reached(self, achieved, desired):
        return (achieved == desired).all(-1)

    def compute_reward(self, achieved, desired, info):
        return self.is_reached(achieved, desired) - 1.0

    def compute_terminated(self, achieved, desired, info):
        return self.is_reached(achieved, desired)


class OneByOne(Bits):
    """Functions that are wrong about many goals at once, as some of Gymnasium-Robotics' are."""

    def is_reached(self, achieved, desired):
        return bool(np.linalg.norm(achieved - desired) < 0.5)


class ManyAtOnce(Bits):
    """Functions that answer for many goals at once alone, which is all that Stable-Baselines3 asks for."""

    def __init__(self, num_bits=4, *, changes_goals=False):
        super().__init__(num_bits)
        self.changes_goals = changes_goals

    def is_reached(self, achieved, desired):
        differ = achieved - desired
        if self.changes_goals:
            achieved[...] = desired
        return ~differ.any(axis=1)


class Numbered(Bits):
    """Goals are the number that the bits make, from 10 on."""

    def __init__(self, num_bits=4):
        super().__init__(num_bits, spaces.Discrete(2**num_bits, start=10))

    def as_goal(self, bits):
        return int(bits @ 2 ** np.arange(self.num_bits)) + 10

    def is_reached(self, achieved, desired):
        assert np.min(achieved) >= 10
        return np.equal(achieved, desired)


class Squares(Bits):
    """Goals of two axes, and nothing about when one ends an episode."""

    compute_terminated = None

    def __init__(self, num_bits=4):
        super().__init__(num_bits, spaces.Box(-1, 1, (2, num_bits // 2), np.float32))

    def as_goal(self, bits):
        return bits.reshape(2, -1).astype(np.float32)

    def is_reached(self, achieved, desired):
        assert (achieved.shape[-2:], achieved.dtype) == ((2, self.num_bits // 2), np.float32)
        return (achieved == desired).all((-1, -2))
