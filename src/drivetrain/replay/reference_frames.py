"""Shared observations in readable Python: which frames a step takes, and which rows that ends.

Frames are numbered as they are taken, and `num_frames` of them exist: frame n is gone once frame
n + num_frames is taken. A row is there as long as its lowest-numbered frame. What is in the frames
needs no oracle: a sample holds what was added, so `ReferenceReplay` keeps whole rows.
"""

from typing import Any

import numpy as np

from drivetrain.replay.frames import num_frames
from drivetrain.replay.schema import FRAMES, Schema

_MOST_FRAMES = 1024  # per lock hold

Numbers = list[int]
"""Frames of one stack, oldest first."""


class ReferenceFrames:
    """The ring of frames: how many were taken, and so which are left."""

    def __init__(self, num_steps: int, schema: Schema, window: int) -> None:
        self.stack = schema.frame_stack
        self.fields = [field.name for field in schema.fields if field.kind == FRAMES]
        self.num_frames = num_frames(num_steps, self.stack, window)
        self.envs_per_hold = max(1, min(_MOST_FRAMES, self.num_frames // 2) // (2 * self.stack))
        self.rows_per_hold = min(_MOST_FRAMES, max(1, 8192 // schema.num_refs))
        self.num_taken = 0

    def oldest(self, num_more: int = 0) -> int:
        """The lowest number still there once `num_more` are taken."""
        return self.num_taken + num_more - self.num_frames


class ReferenceChains:
    """Of each environment, the last next_obs and its frames."""

    def __init__(self, frames: ReferenceFrames, num_envs: int) -> None:
        self._frames = frames
        self._chains: list[tuple[list[bytes], Numbers] | None] = [None] * num_envs

    def take(self, steps: list[dict[str, Any]], first: int) -> list[tuple[Numbers, Numbers]]:
        """The frames of obs and next_obs of each step, of environments `first` onwards."""
        frames = self._frames
        for env in range(first, first + len(steps)):
            self._forget(env, frames.oldest())
        while True:
            plans, num_new = self._plan(steps, first)
            oldest = frames.oldest(num_new)
            kept = [env for env in range(first, first + len(steps)) if plans[env - first][2]]
            gone = [env for env in kept if self._forget(env, oldest)]
            if not gone:
                break
        frames.num_taken += num_new
        for env, (_, numbers, _) in enumerate(plans, first):
            self._chains[env] = self._parts(steps[env - first], "next_"), numbers
        return [(obs, next_obs) for obs, next_obs, _ in plans]

    def _forget(self, env: int, oldest: int) -> bool:
        chain = self._chains[env]
        if chain is None or min(chain[1]) >= oldest:
            return False
        self._chains[env] = None
        return True

    def _plan(self, steps: list[dict[str, Any]], first: int) -> tuple[list[tuple[Numbers, Numbers, bool]], int]:
        number, plans = self._frames.num_taken, list[tuple[Numbers, Numbers, bool]]()
        for env, step in enumerate(steps, first):
            obs, next_obs = self._parts(step, ""), self._parts(step, "next_")
            chain = self._chains[env]
            kept = chain is not None and chain[0] == obs
            if chain is not None and kept:
                of_obs = chain[1]
            else:
                of_obs, number = _stored_anew(obs, number)
            if next_obs[:-1] == obs[1:]:
                of_next, number = [*of_obs[1:], number], number + 1
            else:
                of_next, number = _stored_anew(next_obs, number)
            plans.append((of_obs, of_next, kept))
        return plans, number - self._frames.num_taken

    def _parts(self, step: dict[str, Any], prefix: str) -> list[bytes]:
        """The bytes of each frame of an observation."""
        stack = self._frames.stack
        fields = [np.reshape(step[prefix + name], (stack, -1)) for name in self._frames.fields]
        return [b"".join(field[position].tobytes() for field in fields) for position in range(stack)]


def _stored_anew(parts: list[bytes], number: int) -> tuple[Numbers, int]:
    numbers = Numbers()
    for position, part in enumerate(parts):
        if position == 0 or part != parts[position - 1]:
            number += 1
        numbers.append(number - 1)
    return numbers, number
