"""What a span costs alone: each process measures it on itself when it starts to record.

Empty spans in a loop, recorded and muted, beside the same loop without them. In a program caches are colder: this
is where a cost starts from, not where it ends (regression.py).
"""

import time
from collections.abc import Callable, Mapping

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
        self._without = _fastest({"call": (_calls, nothing), "annotation": (_entries, self._span)})

    def measure(self) -> dict[str, tuple[float, float]]:
        """Per instrument, nanoseconds that recording adds to a muted span, and that a muted span adds to none.

        Neither is below 0, which only a busy machine makes it seem; an instrument whose recorded spans seemed to cost
        no more than muted ones is left out.
        """
        loops: Loops = {"call": (_calls, self._wrapped), "annotation": (_entries, self._span)}
        recorded = dict.fromkeys(loops, float("inf"))
        muted = dict(recorded)
        for _ in range(_NUM_REPEATS):  # by turns: a moment in which the machine is slow is nobody's alone
            recorded = _least(recorded, _fastest(loops, 1))
            _native.mute(_native.MUTE_ALL)
            muted = _least(muted, _fastest(loops))
            _native.mute(0)
        return {
            name: (recorded[name] - muted[name], max(muted[name] - self._without[name], 0.0))
            for name in loops
            if recorded[name] > muted[name]
        }


Loops = Mapping[str, tuple[Callable[..., None], object]]


def _fastest(loops: Loops, num_repeats: int = _NUM_REPEATS) -> dict[str, float]:
    """Nanoseconds per turn of each loop; other processes only ever make it slower."""
    best = dict.fromkeys(loops, float("inf"))
    for _ in range(num_repeats):
        best = _least(best, {name: _timed(*loop) for name, loop in loops.items()})
    return best


def _least(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: min(one[name], other[name]) for name in one}


def _timed(loop: Callable[..., None], what: object) -> float:
    before = time.perf_counter_ns()
    loop(what)
    return (time.perf_counter_ns() - before) / NUM_SPANS


def _calls(function: Callable[[], None]) -> None:
    for _ in range(NUM_SPANS):
        function()


def _entries(span: _native.Span) -> None:
    for _ in range(NUM_SPANS):
        with span:
            pass
