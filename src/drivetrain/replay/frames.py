"""Frames: how many a replay holds.

    add ──▶ frames, each once ◀── slots in rows ──▶ sample          (cpp/include/drivetrain/frames.hpp)

How they go to a file and come back is in files/frames.py.
"""

from typing import Any

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import arguments

MAX_STACK = 256  # a lock hold takes at least the two stacks of one environment, and at most 1,024 frames


def stack_of(share_next_obs: Any, frame_stack: Any) -> int:
    """Frames per observation, 0 where rows hold their observations themselves.

    Raises:
        InvalidInput: `frame_stack` is no number of frames, or `share_next_obs` neither True nor False.
    """
    shares = arguments.require_bool("share_next_obs", share_next_obs)
    stack = arguments.require_int("frame_stack", frame_stack, least=1, most=MAX_STACK)
    return stack if shares or stack > 1 else 0


def num_frames(num_steps: int, stack: int, window: int) -> int:
    """Frames held for rows that begin `num_steps` steps apart in all: one per step, one more per 16
    steps for the first stacks of episodes, and the stacks and open windows of a few environments.

    Raises:
        InvalidInput: There would be more than rows can refer to.
    """
    frames = num_steps + num_steps // 16 + max(64, 4 * (stack + window))
    if frames >= 2**32 - 1:
        raise InvalidInput(
            f"capacity: its {num_steps} steps share {frames} frames, but only 2^32 - 2 are possible; use less"
        )
    return frames


def require_room(num_envs: int, stack: int, window: int, count: int) -> None:
    """Whether the open windows of a writer, of so many steps, leave a frame to others.

    Raises:
        InvalidInput: Frames would be overwritten before their rows are whole; no row would ever come.
    """
    held = num_envs * (window + stack)
    if stack and window > 1 and held > count:
        raise InvalidInput(
            f"num_envs: the open windows of {num_envs} environments ({window} steps, {stack} frames each) hold "
            f"up to {held} frames, but this replay has {count}; use a larger capacity or fewer environments"
        )
