"""asyncio: each task works on a stack of sites of its own, so that an operation may be held across an await.

The event loop runs everything in `Handle._run`; where that is a step of a task, the thread's recorder changes to the
task's lane and back. An operation is then what its own task runs: other tasks, and waiting for the next event, are in
what is around them. Loops that run no handles of asyncio's (uvloop) have one stack, as threads do.
"""

import functools
import itertools
import weakref
from types import ModuleType
from typing import Any

from drivetrain.scope import _native

_numbers = itertools.count(1)
_lanes: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()


def install(module: ModuleType) -> None:
    """Hook asyncio's handles, once."""
    handle: Any = vars(module)["Handle"]
    original = handle._run
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def run(self: Any) -> Any:
        # A task's step is a method of the task, be it Python's or C's; other callbacks are functions and methods.
        task = getattr(self._callback, "__self__", None)
        if not hasattr(task, "get_coro") or not _native.recording():
            return original(self)
        if (number := _lanes.get(task)) is None:
            number = _lanes[task] = next(_numbers)
        before = _native.lane(number)
        try:
            return original(self)
        finally:
            _native.lane(before)

    handle._run = run
