"""What a span costs alone: each process measures it on itself when it starts to record.

Empty spans in a loop, recorded and muted, beside the same loop without them. In a program caches are colder: this
is where a cost starts from, not where it ends (regression.py).
"""

import time
from collections.abc import Callable

from drivetrain.scope import _native
from drivetrain.scope.sites import CALIBRATION, table

NUM_SPANS = 250
_NUM_REPEATS = 3


def nothing() -> None:
    """What is called."""


class Yardstick:
    """Made before recording starts, for an annotation that does not record is part of the program as it was."""

    def __init__(self) -> None:
        self._span = _native.Span(table.number(CALIBRATION))
        self._wrapped = _native.Wrapped(nothing, self._span)
        self._without = {"call": _fastest(_calls, nothing), "annotation": _fastest(_entries, self._span)}

    def measure(self) -> dict[str, tuple[float, float]]:
        """Per instrument, nanoseconds that recording adds to a muted span, and that a muted span adds to none."""
        what: dict[str, tuple[Callable[..., None], object]] = {
            "call": (_calls, self._wrapped),
            "annotation": (_entries, self._span),
        }
        recorded = {name: _fastest(*how) for name, how in what.items()}
        _native.mute(_native.MUTE_ALL)
        muted = {name: _fastest(*how) for name, how in what.items()}
        _native.mute(0)
        return {name: (recorded[name] - muted[name], muted[name] - self._without[name]) for name in what}


def _fastest(loop: Callable[..., None], what: object) -> float:
    """Nanoseconds per turn of a loop; other processes only ever make it slower."""
    best = float("inf")
    for _ in range(_NUM_REPEATS):
        before = time.perf_counter_ns()
        loop(what)
        best = min(best, (time.perf_counter_ns() - before) / NUM_SPANS)
    return best


def _calls(function: Callable[[], None]) -> None:
    for _ in range(NUM_SPANS):
        function()


def _entries(span: _native.Span) -> None:
    for _ in range(NUM_SPANS):
        with span:
            pass
