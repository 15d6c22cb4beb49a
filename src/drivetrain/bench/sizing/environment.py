"""An environment whose steps take a given time, computing or sleeping: "drivetrain.bench.sizing.environment:timed"."""

import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

VARIABLE = "DRIVETRAIN_BENCH_STEP"
"""Names the environment variable that says what a step does: "computes 0.001", "sleeps 0.005" (seconds)."""
_LENGTH = 200  # steps of an episode


class Timed(gymnasium.Env[NDArray[np.float32], int]):
    """Shows zeros, rewards nothing; a step computes or sleeps.

    Args:
        computes: Whether it computes, in CPU time of its thread.
        step_s: Seconds of a step.
    """

    def __init__(self, *, computes: bool, step_s: float) -> None:
        self.observation_space = Box(-1.0, 1.0, (8,), np.float32)
        self.action_space = Discrete(4)  # pyright: ignore[reportAttributeAccessIssue]
        self._computes, self._step_s = computes, step_s
        self._num_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode; takes no time."""
        super().reset(seed=seed, options=options)
        self._num_steps = 0
        return np.zeros(8, np.float32), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take the time of a step."""
        del action
        if self._computes:
            end_s = time.thread_time() + self._step_s
            while time.thread_time() < end_s:
                pass
        else:
            time.sleep(self._step_s)
        self._num_steps += 1
        return np.zeros(8, np.float32), 0.0, False, self._num_steps >= _LENGTH, {}


def timed() -> Timed:
    """As the environment variable says."""
    kind, seconds = os.environ[VARIABLE].split()
    return Timed(computes=kind == "computes", step_s=float(seconds))
