"""Prefetching: a thread that draws the next batches while the caller works on this one.

    thread   draw ──▶ draw ──▶ (waits: `depth` are ready)
                │        │
    caller      └──▶ next() ──▶ next() ──▶ update_priorities

Native sampling holds no GIL, so it runs beside whatever the caller does.
"""

import contextlib
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, NoReturn, TypeVar

from drivetrain.core.errors import InvalidInput, NotEnoughData, TimedOut

_POLL_S = 0.005  # between looks whether there are enough rows
_JOIN_S = 10.0  # a draw takes milliseconds, unless a stopped process holds the lock

Batch = TypeVar("Batch")


class Prefetcher(Generic[Batch]):
    """An iterator over batches drawn ahead, made by `Replay.prefetch`; close it, or use `with`.

    One consumer at a time. Batches come in the order in which they were drawn. What goes wrong in the
    thread is raised by `next` in its turn, after the batches drawn before; iteration is then over.
    """

    def __init__(self, drawing: Callable[[int], Callable[[], Batch]], *, depth: int, timeout_s: float) -> None:
        self._ahead = _Ahead[Batch](depth)
        thread = threading.Thread(
            target=_run, args=(self._ahead, drawing, timeout_s), name="drivetrain-prefetch", daemon=True
        )
        # Runs when this object is collected, or before the interpreter ends, unless close() did all of it: a daemon
        # thread that came back from native code after that would bring the process down.
        self._end = weakref.finalize(self, _end, self._ahead, thread)
        self._thread = thread
        thread.start()

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a Prefetcher cannot be pickled or copied; send replay.handle(), and prefetch there")

    def __iter__(self) -> "Prefetcher[Batch]":
        return self

    def __next__(self) -> Batch:
        """The next batch; waits for it.

        Raises:
            StopIteration: This was closed.
            TimedOut: There were not enough rows for too long.
            Closed: The replay was closed; and whatever else `sample` raises.
        """
        ahead = self._ahead
        if os.getpid() != ahead.pid:
            raise InvalidInput("prefetch: its thread did not follow into this forked process; start another one here")
        if ahead.ready.empty():  # what a call had taken that Ctrl-C has ended is lost
            ahead.wake()
        item = ahead.ready.get()
        if isinstance(item, _Batch) and not ahead.stopped:
            ahead.wake()
            return item.batch
        ahead.ready.put(None)  # for later calls: it is over
        if isinstance(item, StopIteration):  # it would look as if this were closed (as in generators, PEP 479)
            raise RuntimeError("prefetch: the schedule of beta raised StopIteration") from item
        if isinstance(item, BaseException):
            raise item
        raise StopIteration

    def close(self) -> None:
        """End the thread; batches drawn ahead are dropped. Where Ctrl-C has ended a call, another one does the rest."""
        _end(self._ahead, self._thread)
        self._end.detach()

    def __enter__(self) -> "Prefetcher[Batch]":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Batch(Generic[Batch]):
    """Tells a batch from an error, whatever it is."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch


class _Ahead(Generic[Batch]):
    """What caller and thread share. It does not know the Prefetcher, which may therefore be collected: also in the
    thread, in the midst of any call written in Python and with the lock that it holds, so that nothing here has one.
    """

    def __init__(self, depth: int) -> None:
        self.pid, self.depth = os.getpid(), depth
        self.ready: SimpleQueue[_Batch[Batch] | BaseException | None] = SimpleQueue()
        self.stopped = False
        self._calls: SimpleQueue[None] = SimpleQueue()  # to the thread, to look again

    def may_draw(self) -> bool:
        """Wait until fewer than `depth` are ready; False when stopped."""
        while not self.stopped and self.ready.qsize() >= self.depth:
            self._calls.get()
        return not self.stopped

    def wake(self) -> None:
        """Have the thread look again; one call that it has not heard yet is enough."""
        if self._calls.empty():
            self._calls.put(None)


def _run(ahead: _Ahead[Batch], drawing: Callable[[int], Callable[[], Batch]], timeout_s: float) -> None:
    try:
        for step in itertools.count():
            if not ahead.may_draw():
                return
            batch = _draw(ahead, drawing(step), timeout_s)
            if batch is not None:
                ahead.ready.put(batch)
    except BaseException as error:  # the caller's, whatever it is
        ahead.ready.put(error)


def _draw(ahead: _Ahead[Batch], draw: Callable[[], Batch], timeout_s: float) -> _Batch[Batch] | None:
    """One batch, as soon as there are rows enough; None when stopped."""
    deadline = time.monotonic() + timeout_s
    while not ahead.stopped:
        try:
            return _Batch(draw())
        except NotEnoughData as error:
            if time.monotonic() >= deadline:
                raise TimedOut(f"prefetch: waited {timeout_s} s for enough rows; {error}") from None
        time.sleep(_POLL_S)
    return None


def _end(ahead: "_Ahead[Batch]", thread: threading.Thread) -> None:
    if os.getpid() != ahead.pid:
        return  # forked: the thread is the parent's
    ahead.stopped = True
    ahead.wake()
    ahead.ready.put(None)  # for a consumer that waits; before this call does, and may be interrupted
    if thread is not threading.current_thread():  # collected by the garbage collector in the thread itself
        with contextlib.suppress(RuntimeError):  # it never started
            thread.join(_JOIN_S)
