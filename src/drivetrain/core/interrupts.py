"""Ctrl-C while libraries load: remembered, since some of them swallow the exception or make another one of it."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class NotedInterrupts:
    """A handler of SIGINT that raises KeyboardInterrupt as Python's own does, and knows afterwards that it came."""

    came = False

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Handle one."""
        self.came = True
        raise KeyboardInterrupt


@contextmanager
def noting_interrupts() -> Generator[NotedInterrupts, None, None]:
    """Note Ctrl-C inside the block, where Python's own handler is in charge: neither ignored nor somebody's own."""
    notes = NotedInterrupts()
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, notes)
    try:
        yield notes
    finally:
        if signal.getsignal(signal.SIGINT) is notes:
            signal.signal(signal.SIGINT, signal.default_int_handler)
