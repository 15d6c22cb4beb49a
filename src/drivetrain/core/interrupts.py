"""Ctrl-C on the command line: while libraries load, since some of them swallow the exception, and while all ends."""

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from types import FrameType

INTERRUPTED = 128 + signal.SIGINT
"""The exit code of a command that Ctrl-C has ended."""


_AGAIN_S = 0.02


class NotedInterrupts:
    """A handler of SIGINT that raises KeyboardInterrupt as Python's own does, and knows afterwards that it came.

    While native code is loaded it waits: jaxlib crashes there, and others make an ImportError of it.
    """

    came = False

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Handle one."""
        self.came = True
        if not _loads_native_code(frame):
            raise KeyboardInterrupt
        again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), signum))
        again.daemon = True
        again.start()


def _loads_native_code(frame: FrameType | None) -> bool:
    """Whether an extension module is being made below this frame."""
    while frame is not None:
        loader: object = frame.f_locals.get("self") if frame.f_code.co_name in _LOADING else None
        if isinstance(loader, ExtensionFileLoader):
            return True
        frame = frame.f_back
    return False


_LOADING = ("create_module", "exec_module")


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
        if signal.getsignal(signal.SIGINT) in (notes, _end):
            signal.signal(signal.SIGINT, signal.default_int_handler)


def raise_swallowed() -> None:
    """Where something failed while it was loaded: Ctrl-C, if that came, and was swallowed.

    Raises:
        KeyboardInterrupt: It came.
    """
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(handler, NotedInterrupts) and handler.came:
        raise KeyboardInterrupt


@contextmanager
def holding_back(*signums: signal.Signals) -> Generator[None, None, None]:
    """Start processes inside the block that signals reach when they let them; here they come after the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signums)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_at_next_interrupt() -> None:
    """Let another Ctrl-C end the process without a word.

    For when all that mattered is done: an exception would be shown by whatever clears up, or break it.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _end)


def _end(signum: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
