"""Ctrl-C, SIGTERM and SIGHUP as notes to whoever runs, instead of exceptions anywhere; and alarms for what may hang."""

import contextlib
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any, NoReturn

from drivetrain.core.errors import TimedOut
from drivetrain.core.interrupts import NotedInterrupts, end_at_next_interrupt

_LONGEST_S = 1e8  # which alarms of every platform can be set to
_LATE_S = 1.0  # behind the time of an alarm: then nothing ran here, as while the process was stopped


class Signals:
    """Routes Ctrl-C, SIGTERM and SIGHUP to a function while it is entered.

    Python delivers signals to the main thread alone; entered elsewhere it does nothing. SIGHUP, which a terminal that
    goes away may send several times, counts only as the first. What is ignored stays ignored, as SIGHUP under nohup and
    Ctrl-C in the background of a script, and so does what a host of this interpreter handles itself.

    Args:
        interrupt: Called with the signal's number.

    Raises:
        KeyboardInterrupt: Ctrl-C came before, and was swallowed by what was being loaded.
    """

    def __init__(self, interrupt: Callable[[int], None]) -> None:
        self._interrupt = interrupt
        self._before: dict[int, Any] = {}
        self._came = False

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(signum) not in (signal.SIG_IGN, None):
                    self._before[signum] = signal.signal(signum, self._handle)
        if any(isinstance(before, NotedInterrupts) and before.came for before in self._before.values()):
            self.__exit__()
            raise KeyboardInterrupt

    def __exit__(self, *exc_info: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        if self._came and isinstance(self._before.get(signal.SIGINT), NotedInterrupts):
            end_at_next_interrupt()

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGHUP and self._came:
            return
        self._came = True
        self._interrupt(signum)


class Interruption:
    """A signal that asks for the end, as a note to whoever runs in this process; another one raises at once."""

    def __init__(self) -> None:
        self.signum = 0
        """Which has come; 0: none."""
        self._is_held = False

    def note(self, signum: int) -> None:
        """Note it; what `Signals` calls.

        Raises:
            KeyboardInterrupt: One has come before.
        """
        if self.signum and not self._is_held:
            raise KeyboardInterrupt
        self.signum = signum

    @contextlib.contextmanager
    def held(self) -> Generator[None, None, None]:
        """Raise nothing inside the block, however many come: for what an exception breaks, as loading native code."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False


def raise_for(signum: int) -> NoReturn:
    """End as that signal asks.

    Raises:
        KeyboardInterrupt: It was Ctrl-C.
        SystemExit: It was another; the code is 128 more than its number.
    """
    if signum == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + signum)


def may_be_ctrl_c(error: KeyboardInterrupt) -> bool:
    """Whether Ctrl-C may have raised it: not where that is ignored, or noted by ours, which has not raised it."""
    handler = signal.getsignal(signal.SIGINT)
    is_ours = isinstance(getattr(handler, "__self__", handler), Signals | NotedInterrupts)
    if handler is not signal.SIG_IGN and not is_ours:
        return True  # by Python itself, or by a host's handler
    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    return last.f_code in (Interruption.note.__code__, raise_for.__code__, NotedInterrupts.__call__.__code__)


@contextlib.contextmanager
def time_limit(seconds: float, sentence: str) -> Generator[None, None, None]:
    """Let the block raise a sentence where it takes longer: waiting in Python ends then, computing in C does not.

    By the process's alarm, so only in the main thread, and where nobody else has set one; elsewhere nothing is limited.
    Where the alarm finds the process stopped, as by Ctrl-Z, the block has all of its time again.

    Raises:
        TimedOut: It took longer.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGALRM) != signal.SIG_DFL or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def end(signum: int, frame: FrameType | None) -> None:
        if time.monotonic() - due_s < _LATE_S:
            raise TimedOut(sentence)
        begin()

    def begin() -> None:
        nonlocal due_s
        due_s = time.monotonic() + seconds
        signal.setitimer(signal.ITIMER_REAL, min(seconds, _LONGEST_S))

    due_s = 0.0
    signal.signal(signal.SIGALRM, end)
    begin()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
