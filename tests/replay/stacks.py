"""Observations as a frame-stack wrapper gives them, and steps that break every habit of it."""

import numpy as np

from drivetrain.replay import Replay


def stack_spec(stack):
    """Two kinds of obs, of `stack` frames each; stack 1 has no axis for it."""
    axis = (stack,) if stack > 1 else ()
    return {"obs": {"pixels": ((*axis, 3), "uint8"), "speed": (axis, "float32")}, "action": ((), "int64")}


class Stacks:
    """The last next_obs of each environment, frames as small integers: coincidences are wanted."""

    def __init__(self, num_envs, stack, rng):
        self.num_envs, self.stack = num_envs, stack
        self.last = rng.integers(0, 4, (num_envs, stack))

    def step(self, rng, *, break_rate):
        """Numbers [num_envs, stack] of obs and next_obs; broken chains and resets at this rate."""
        obs, broken = self.last.copy(), rng.random(self.num_envs) < break_rate
        for env in np.flatnonzero(broken):
            frame, kind = rng.integers(0, 4), rng.integers(3)
            if kind == 0:
                obs[env] = frame  # a reset that fills the stack
            elif kind == 1:
                obs[env] = [0] * (self.stack - 1) + [frame]  # one that pads it
            else:
                obs[env] = rng.integers(0, 4, self.stack)  # no chain at all
        next_obs = np.concatenate([obs[:, 1:], rng.integers(0, 4, (self.num_envs, 1))], axis=1)
        for env in np.flatnonzero(rng.random(self.num_envs) < break_rate / 2):
            next_obs[env] = rng.integers(0, 4, self.stack)
        self.last = next_obs
        return obs, next_obs


def stack_fields(numbers):
    """Frames by number as the fields of an observation."""
    pixels = np.stack([numbers, numbers * 50, numbers * 7 % 5], axis=-1).astype(np.uint8)
    speed = numbers.astype(np.float32) / 3
    if numbers.shape[1] == 1:
        pixels, speed = pixels[:, 0], speed[:, 0]
    return {"pixels": np.ascontiguousarray(pixels), "speed": np.ascontiguousarray(speed)}


def pixel_steps(rng, num_steps, num_envs, stack, *, episode=10**9, num_bytes=50):
    """Steps of episodes of random images, first stack filled with the first frame: what Atari gives."""
    frames = np.zeros((num_envs, stack, num_bytes), np.uint8)
    for t in range(num_steps):
        if t % episode == 0:
            frames = np.repeat(rng.integers(0, 256, (num_envs, 1, num_bytes), np.uint8), stack, axis=1)
        new = rng.integers(0, 256, (num_envs, 1, num_bytes), np.uint8)
        next_frames = np.concatenate([frames[:, 1:], new], axis=1)
        yield {
            "obs": frames,
            "number": np.arange(num_envs) + t * num_envs,
            "reward": rng.random(num_envs),
            "next_obs": next_frames,
            "terminated": np.full(num_envs, t % episode == episode - 1),
            "truncated": np.zeros(num_envs, bool),
        }
        frames = next_frames


def pixel_replay(capacity, stack, *, num_bytes=50, **settings):
    spec = {"obs": ((stack, num_bytes), "uint8"), "number": ((), "int64")}
    return Replay(capacity, spec, frame_stack=stack, share_next_obs=True, **settings)
