"""asyncio: each task works on a stack of sites of its own, so that an operation may be held across an await.

The event loop runs everything in `Handle._run`; where that is a step of a task, the thread's recorder changes to the
task's lane and back. An operation is then what its own task runs: other tasks, and waiting for the next event, are in
what is around them. Loops that run no handles of asyncio's (uvloop) have one stack, as threads do.
"""

import contextlib
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


def begin_in_task() -> None:
    """A session may begin in a coroutine, whose task then goes on in the thread's own stack: what it enters before its
    next step is there by then. So it is around all other tasks, as what is around the event loop.
    """
    from asyncio import current_task  # which the program has

    _lanes.clear()  # of a session before
    with contextlib.suppress(RuntimeError):  # no event loop runs here
        if (task := current_task()) is not None:
            _lanes[task] = 0
