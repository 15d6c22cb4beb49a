"""The readable oracle of time lines: one event after the other, with stacks in plain lists.

Also what runs where stacks were left out of order or a thread worked on several (asyncio's lanes).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.trace.events import BEGIN, END, LANE

Ints = NDArray[np.int64]


class Frames(NamedTuple):
    """What a thread's stacks held: a frame for each begin event, in order, and behind these one for each time that a
    begin was found on top of another than before.
    """

    inner: Ints
    """Per event the innermost frame after it; -1 for none."""
    around: Ints
    """Per frame the one that it is on top of; -1 for none."""
    begin: Ints
    """Per frame which begin event it is of, counted from 0."""

    @property
    def begin_around(self) -> Ints:
        """Per begin event the one around it when it was entered; -1 for none."""
        around = self.around[: int(self.begin.max(initial=-1)) + 1]
        return np.where(around < 0, -1, self.begin[around])


def innermost(kind: NDArray[np.uint8], site: NDArray[np.int32]) -> Frames:
    """Walk through a thread's events.

    An end closes the innermost open begin of its site in its lane, and nothing if there is none. What stood above it
    stands on what was below it from there on. A lane's stack lies on top of lane 0, the thread's own, as that is when
    the thread turns to the lane.
    """
    sites = site.tolist()
    entered: list[int] = site[kind == BEGIN].tolist()
    begin, around = list(range(len(entered))), [-1] * len(entered)
    stacks: dict[int, list[int]] = {0: []}

    def top(lane: int) -> int:
        stack = stacks[lane] or stacks[0]
        return stack[-1] if stack else -1

    def settle(stack: list[int], first: int, below: int) -> None:
        for place in range(first, len(stack)):
            if around[stack[place]] != below:
                begin.append(begin[stack[place]])
                around.append(below)
                stack[place] = len(begin) - 1
            below = stack[place]

    lane, num_begun = 0, 0
    inner: list[int] = []
    for event, what in enumerate(kind.tolist()):
        if what == LANE:
            lane = sites[event]
        stack = stacks.setdefault(lane, [])
        base = top(0) if lane else -1
        if what == LANE:
            settle(stack, 0, base)
        elif what == BEGIN:
            around[num_begun] = top(lane)
            stack.append(num_begun)
            num_begun += 1
        elif what == END:
            matching = [place for place, frame in enumerate(stack) if entered[begin[frame]] == sites[event]]
            if matching:
                place = matching[-1]
                del stack[place]
                settle(stack, place, stack[place - 1] if place else base)
        inner.append(top(lane))
    return Frames(np.array(inner, np.int64), np.array(around, np.int64), np.array(begin, np.int64))
