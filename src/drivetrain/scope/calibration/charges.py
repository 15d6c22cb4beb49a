"""How many spans were charged to which interval of a time line, and what that comes to under a set of costs.

A span costs something inside (counted in the site it enters), before and after it (counted in what is around), and
where instruments are muted the little that a disabled one costs. What a recorder of GPUs says that it took is charged
by the nanosecond, and what it adds to a call beside that where the call begins; by the nanosecond, too, the time that
the thread ran and was recorded, at a rate that is 0 and has an error.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.calibration.costs import Cost
from drivetrain.scope.calibration.device_calls import KINDS, DeviceCalls
from drivetrain.scope.calibration.device_costs import DeviceCost
from drivetrain.scope.calibration.unseen import Unseen
from drivetrain.scope.sites import CLASSES
from drivetrain.scope.states import StateSpace
from drivetrain.scope.timeline import Timeline
from drivetrain.scope.trace.blocks import Blocks
from drivetrain.scope.trace.events import BEGIN, END, INSTRUMENTS, RESUMED, Thread

Floats = NDArray[np.float64]
CALLS = 3 * len(INSTRUMENTS)
OVERHEAD = CALLS + len(KINDS)
CHECKED = OVERHEAD + 1
RAN = CHECKED + 1
NUM_PARTS = RAN + 1
"""Per instrument: inside, around, disabled; calls of each kind; nanoseconds that a recorder of GPUs says that it took,
where nothing checks that, and where costs of calls were fitted beside it; nanoseconds of running while recorded."""
_NOT_RUNNING = ("accelerator_sync", "wait", "idle", "unrecorded", "profiler")
OVERHEAD_SE = 0.5
"""Of what nothing checks: it is taken to be off by half."""
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
    calls: DeviceCalls | None = None
    """What the thread called of devices; None: that was not recorded."""
    checked_ns: tuple[int, int] = (0, 0)
    """Between which times costs of calls were fitted."""

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Events of spans that were entered or left here, and not only resumed."""
        thread = self.thread
        is_span = (thread.kind == BEGIN) | (thread.kind == END)
        return is_span & (thread.value & RESUMED == 0) & (thread.site != self.calibration)

    def of_intervals(self, part: int) -> Floats:
        """Spans (or halves) per interval of the time line, for one part of one instrument."""
        if part == RAN:
            return self._ran_ns
        if part >= CALLS:
            return self._of_calls(part)
        found = np.zeros(len(self.line.state))
        instrument, what = divmod(part, 3)
        edge = self.line.edge_of_event
        mine = self.counted & (self.thread.value & (RESUMED - 1) == instrument)
        begins = np.flatnonzero(mine & (self.thread.kind == BEGIN))
        ends = np.flatnonzero(mine & (self.thread.kind == END))
        if what == 0:  # event i is at edge i + 1, where the interval begins that follows it
            found[edge[begins + 1]] = 1.0
        elif what == 1:
            around = np.concatenate([edge[begins + 1] - 1, edge[ends + 1]])
            found += np.bincount(around, minlength=len(found)) * 0.5
        else:
            found[edge[begins + 1]] = 1.0
            self._add_muted(found, instrument)
        return found

    def _add_muted(self, found: Floats, instrument: int) -> None:
        """Spans of blocks that were not recorded are known by number only: charged where the block ends."""
        hidden = self.blocks.where(self.blocks.muted[:, instrument])
        at = np.searchsorted(
            self.thread.time_ns, hidden.end_ns
        )  # the first event at that time; before it lies the block
        np.add.at(found, self.line.edge_of_event[at + 1] - 1, hidden.spans[:, instrument])

    def _of_calls(self, part: int) -> Floats:
        edge_ns = self.line.edge_ns
        if self.calls is None:
            return np.zeros(len(edge_ns) - 1)
        if part < OVERHEAD:
            return self.calls.in_intervals(part - CALLS, edge_ns)
        checked = self.calls.overhead_in(edge_ns, *self.checked_ns)
        if part == CHECKED:
            return checked
        return self.calls.overhead_in(edge_ns, int(edge_ns[0]), int(edge_ns[-1])) - checked

    @property
    def _ran_ns(self) -> Floats:
        kind = self.space.class_of(self.line.state)
        runs = ~np.isin(kind, [CLASSES.index(name) for name in _NOT_RUNNING])
        return np.where(runs, np.diff(self.line.edge_ns), 0).astype(np.float64)

    @cached_property
    def of_states(self) -> Floats:
        """[states that occur, parts]: how many spans are charged to each state."""
        parts, place, num = map(self.of_intervals, range(NUM_PARTS)), self.line.place, len(self.line.occurring)
        columns = [np.bincount(place, part, num).astype(np.float64) for part in parts]
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


def scenarios(
    costs: Sequence[Sequence[Cost | None]],
    used: Sequence[Collection[int]],
    of_devices: Sequence[DeviceCost | None],
    unseen: Sequence[Unseen],
) -> Scenarios:
    """The likely costs of spans and of devices' calls, then one scenario per independent error; all per process, with
    the instruments that it used.
    """
    every = [cost for process in costs for cost in process if cost is not None]
    factors = list(dict.fromkeys(cost.factor for cost in every))
    names = list(dict.fromkeys(cost.instrument for cost in every))
    beside = list(dict.fromkeys(one.factor for one in unseen))
    of_spans = 1 + len(factors) + 2 * len(names)
    next_error = of_spans + 1 + len(beside)
    num = next_error + sum(one.errors.shape[1] for one in of_devices if one is not None)
    found: list[Floats | None] = []
    for process, needed, of_calls, change in zip(costs, used, of_devices, unseen, strict=True):
        matrix = np.zeros((NUM_PARTS, num))
        matrix[[OVERHEAD, CHECKED]] = 1.0
        matrix[OVERHEAD, of_spans] += OVERHEAD_SE
        matrix[RAN, of_spans + 1 + beside.index(change.factor)] = change.se
        if of_calls is not None:
            own = slice(next_error, next_error := next_error + of_calls.errors.shape[1])
            matrix[CALLS:OVERHEAD] = of_calls.ns[:, None]
            matrix[CALLS:OVERHEAD, own] += of_calls.errors
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
        known = {instrument for instrument, cost in enumerate(process) if cost is not None}
        found.append(matrix if known and known.issuperset(needed) else None)
    return Scenarios(tuple(found), num)
