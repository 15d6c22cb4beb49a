"""How many spans were charged to which interval of a time line, and what that comes to under a set of costs.

A span costs something inside (counted in the site it enters), before and after it (counted in what is around), and
where instruments are muted the little that a disabled one costs. What a recorder of GPUs says that it took is charged
by the nanosecond; so is the time that the thread ran and was recorded, at a rate that is 0 and has an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.calibration.blocks import Blocks
from drivetrain.scope.calibration.costs import Cost
from drivetrain.scope.calibration.unseen import Unseen
from drivetrain.scope.sites import CLASSES
from drivetrain.scope.states import StateSpace
from drivetrain.scope.timeline import Timeline
from drivetrain.scope.trace.events import BEGIN, END, INSTRUMENTS, RESUMED, Thread

Floats = NDArray[np.float64]
OVERHEAD = 3 * len(INSTRUMENTS)
RAN = OVERHEAD + 1
NUM_PARTS = RAN + 1
"""Per instrument: inside, around, disabled; then nanoseconds of recording GPUs, and of running while being recorded."""
_NOT_RUNNING = ("wait", "idle", "unrecorded", "profiler")
OVERHEAD_SE = 0.5
"""Of what a recorder of GPUs says of itself: nobody checks it, so that it is taken to be off by half."""
INSIDE_SE = 0.1
"""Of the share of a cost that lies inside its span: empty spans tell it, programs do not; so it is taken, not known."""


@dataclass(frozen=True, eq=False)
class Charges:
    """Spans of one thread by the interval that they are charged to."""

    thread: Thread
    line: Timeline
    blocks: Blocks
    calibration: int
    """The site whose spans are the measurement of the cost, and no cost of the program's; -1: none."""
    space: StateSpace
    overhead_ns: Floats | None = None
    """Per interval of the time line what recording GPUs took of it; None: nothing."""

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Events of spans that were entered or left here, and not only resumed."""
        thread = self.thread
        is_span = (thread.kind == BEGIN) | (thread.kind == END)
        return is_span & (thread.value & RESUMED == 0) & (thread.site != self.calibration)

    def of_intervals(self, part: int) -> Floats:
        """Spans (or halves) per interval of the time line, for one part of one instrument."""
        found = np.zeros(len(self.line.state))
        if part == OVERHEAD:
            return found if self.overhead_ns is None else self.overhead_ns
        if part == RAN:
            kind = self.line.state // len(self.space.phases) % len(CLASSES)
            runs = ~np.isin(kind, [CLASSES.index(name) for name in _NOT_RUNNING])
            return np.where(runs, np.diff(self.line.edge_ns), 0).astype(np.float64)
        instrument, what = divmod(part, 3)
        mine = self.counted & (self.thread.value & (RESUMED - 1) == instrument)
        begins = np.flatnonzero(mine & (self.thread.kind == BEGIN))
        ends = np.flatnonzero(mine & (self.thread.kind == END))
        if what == 0:  # interval i + 1 follows event i
            found[begins + 1] = 1.0
        elif what == 1:
            found += np.bincount(np.concatenate([begins, ends + 1]), minlength=len(found)) * 0.5
        else:
            found[begins + 1] = 1.0
            self._add_muted(found, instrument)
        return found

    def _add_muted(self, found: Floats, instrument: int) -> None:
        """Spans of blocks that were not recorded are known by number only: charged where the block ends."""
        hidden = self.blocks.where(self.blocks.muted[:, instrument])
        at = np.searchsorted(
            self.thread.time_ns, hidden.end_ns
        )  # the first event at that time; before it lies the block
        np.add.at(found, at, hidden.spans[:, instrument])

    @cached_property
    def of_states(self) -> Floats:
        """[states, parts]: how many spans are charged to each state."""
        parts = map(self.of_intervals, range(NUM_PARTS))
        columns = [np.bincount(self.line.state, part, self.space.size).astype(np.float64) for part in parts]
        return np.stack(columns, axis=1)

    def before(self, places: NDArray[np.int64]) -> Floats:
        """[places, parts]: how many spans are charged to all intervals before each edge of the time line."""
        columns: list[Floats] = []
        for part in range(NUM_PARTS):
            columns.append(np.concatenate([[0.0], np.cumsum(self.of_intervals(part))])[places])
        return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class Scenarios:
    """Costs as they are believed to be (column 0), and with one factor after another larger by its standard error."""

    of_process: tuple[Floats | None, ...]
    """[parts, scenarios] per process; None where an instrument that it used has no known cost."""
    num: int


def scenarios(costs: Sequence[Sequence[Cost | None]], unseen: Sequence[Unseen]) -> Scenarios:
    """The likely costs, then one scenario per independent error of theirs; both arguments per process."""
    every = [cost for process in costs for cost in process if cost is not None]
    factors = list(dict.fromkeys(cost.factor for cost in every))
    names = list(dict.fromkeys(cost.instrument for cost in every))
    beside = list(dict.fromkeys(one.factor for one in unseen))
    num = 2 + len(factors) + 2 * len(names) + len(beside)
    found: list[Floats | None] = []
    for process, change in zip(costs, unseen, strict=True):
        matrix = np.zeros((NUM_PARTS, num))
        matrix[OVERHEAD] = 1.0
        matrix[OVERHEAD, -1] += OVERHEAD_SE
        matrix[RAN, num - 2 - beside.index(change.factor)] = change.se
        for instrument, cost in enumerate(process):
            if cost is None:
                continue
            recorded = np.full(num, cost.recorded_ns)
            recorded[1 + factors.index(cost.factor)] += cost.recorded_se_ns
            muted, inside = np.full(num, cost.disabled_ns), np.full(num, cost.inside)
            own = 1 + len(factors) + 2 * names.index(cost.instrument)
            muted[own] += cost.disabled_se_ns
            inside[own + 1] += INSIDE_SE
            rows = (inside * recorded, (1 - inside) * recorded, muted)
            matrix[3 * instrument : 3 * instrument + 3] = rows
        found.append(matrix if any(cost is not None for cost in process) else None)
    return Scenarios(tuple(found), num)
