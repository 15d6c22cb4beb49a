"""What recording cost: measured by each process on itself when it starts, and charged to where it was spent.

A process enters an empty span many times before anything else (session.py). Between the two times of such a span
lies what a span adds to the site it enters, between two of them what it adds to the site around. This is a prior:
in a real program caches are colder, and published measurements put such numbers 41% too low to 12% too high.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.sites import CALIBRATION
from drivetrain.scope.trace.events import BEGIN, END, Trace

# A cost c that was measured alone is taken to lie between these multiples of it inside a program: the
# micro-benchmarks of design/scope.md were off by -41% to +12% (1 / (1 - 0.41) and 1 / 1.12).
LEAST, MOST = 0.89, 1.7


class Cost(NamedTuple):
    """Nanoseconds per span."""

    inside_ns: float
    """Counted in the span itself."""
    around_ns: float
    """Counted in whatever is around the span."""

    @property
    def total_ns(self) -> float:
        """Of one span."""
        return self.inside_ns + self.around_ns


@dataclass(frozen=True, kw_only=True, eq=False)
class Charge:
    """Nanoseconds that recording added to each state of a thread; low and high bound them."""

    likely_ns: NDArray[np.float64]

    @property
    def low_ns(self) -> NDArray[np.float64]:
        """At least."""
        return self.likely_ns * LEAST

    @property
    def high_ns(self) -> NDArray[np.float64]:
        """At most."""
        return self.likely_ns * MOST


def measured(trace: Trace) -> list[Cost | None]:
    """Per process what a span costs there: a forked child has its parent's cost; None where none is in the trace."""
    found: list[Cost | None] = [None] * len(trace.processes)
    if CALIBRATION not in trace.sites:
        return found
    site = trace.sites.index(CALIBRATION)
    for thread in trace.threads:
        mine = thread.site == site
        begin = thread.time_ns[mine & (thread.kind == BEGIN)]
        end = thread.time_ns[mine & (thread.kind == END)]
        num = min(len(begin), len(end))
        if num > 10 and found[thread.process] is None:
            inside = float(np.median(end[:num] - begin[:num]))
            spacing = float(np.median(np.diff(begin)))
            found[thread.process] = Cost(inside, spacing - inside)
    by_pid = {process.pid: number for number, process in enumerate(trace.processes)}
    for number, process in enumerate(trace.processes):  # parents come first
        if found[number] is None and process.parent in by_pid:
            found[number] = found[by_pid[process.parent]]
    return found


def charge(cost: Cost, entered: NDArray[np.int32], entered_from: NDArray[np.int32], num_states: int) -> Charge:
    """What a thread's spans added to each state.

    Args:
        cost: Of a span.
        entered: State of each span.
        entered_from: The state around it.
        num_states: How many states there are.
    """
    inside = np.bincount(entered, minlength=num_states) * cost.inside_ns
    around = np.bincount(entered_from, minlength=num_states) * cost.around_ns
    return Charge(likely_ns=inside + around)
