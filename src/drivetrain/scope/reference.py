"""The readable oracle of time lines: one event after the other, with stacks in plain lists.

Also what runs where stacks were left out of order or a thread worked on several (asyncio's lanes).
"""

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.trace.events import BEGIN, END, LANE


def innermost(kind: NDArray[np.uint8], site: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each event the innermost open begin after it, and for each begin the one around it; -1 for none.

    Begins are counted from 0. An end closes the innermost open begin of its site in its lane, and nothing if there
    is none. A lane's stack lies on top of lane 0, the thread's own.
    """
    sites = site.tolist()
    stacks: dict[int, list[int]] = {0: []}
    lane = 0
    entered: list[int] = []  # the site of each begin
    inner: list[int] = []
    around: list[int] = []
    for event, what in enumerate(kind.tolist()):
        if what == LANE:
            lane = sites[event]
        stack = stacks.setdefault(lane, [])
        if what == BEGIN:
            around.append(_top(stacks, lane))
            stack.append(len(entered))
            entered.append(sites[event])
        elif what == END:
            matching = [place for place, begin in enumerate(stack) if entered[begin] == sites[event]]
            if matching:
                del stack[matching[-1]]
        inner.append(_top(stacks, lane))
    return np.array(inner, np.int64), np.array(around, np.int64)


def _top(stacks: dict[int, list[int]], lane: int) -> int:
    stack = stacks[lane] or stacks[0]
    return stack[-1] if stack else -1
