"""A profile without what recording added: every number with an interval that it lies in with 95% confidence.

time lines + blocks -> costs -> charges -> compacted time lines -> states, overlaps, wall time

Intervals hold the errors of the costs and of what recording may have changed beside its spans (each factor by itself,
added as squares), and beyond that what it would come to if waits had been ended by others than is taken here
(compact.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope import overlap
from drivetrain.scope.calibration import behaviour
from drivetrain.scope.calibration.charges import CALLS, RAN, Charges, Scenarios, scenarios
from drivetrain.scope.calibration.compact import Moved, compact
from drivetrain.scope.calibration.costs import Cost, known
from drivetrain.scope.calibration.device_calls import CallsInBlocks, DeviceCalls
from drivetrain.scope.calibration.device_costs import DeviceCost, of_thread
from drivetrain.scope.calibration.unseen import unseen
from drivetrain.scope.sites import CALIBRATION
from drivetrain.scope.states import IDLE, StateSpace
from drivetrain.scope.timeline import Timeline
from drivetrain.scope.trace.blocks import Blocks, blocks_of
from drivetrain.scope.trace.events import INSTRUMENTS, Trace

Floats = NDArray[np.float64]
_TWO_SIDED_95 = 1.96


class Interval(NamedTuple):
    """Nanoseconds, and the bounds they lie between."""

    likely_ns: float
    low_ns: float
    high_ns: float


NOTHING = Interval(0.0, 0.0, 0.0)


def interval(columns: Floats) -> Interval:
    """Of one number under all scenarios: likely costs, each factor larger, the earliest and the latest waits."""
    likely = float(columns[0])
    half = _TWO_SIDED_95 * float(np.sqrt(((columns[1:-2] - likely) ** 2).sum()))
    low, high = float(columns[-2:].min()), float(columns[-2:].max())
    return Interval(likely, likely - half - max(likely - low, 0.0), likely + half + max(high - likely, 0.0))


@dataclass(frozen=True, eq=False)
class Correction:
    """What recording added to a trace, as far as it is known."""

    trace: Trace
    lines: Sequence[Timeline]
    """Of its threads, an interval for each event; where GPUs were recorded, calls are intervals, too."""
    space: StateSpace
    calls: Sequence[DeviceCalls] | None = None
    """Of its threads, where GPUs were recorded."""

    @cached_property
    def blocks(self) -> list[Blocks]:
        """Of each thread."""
        return [blocks_of(thread) for thread in self.trace.threads]

    @cached_property
    def changes(self) -> list[str]:
        """How recording changed what the program did; then nothing is corrected."""
        return behaviour.of_all(self.blocks)

    @cached_property
    def costs(self) -> list[list[Cost | None]]:
        """Of a span, per process and instrument."""
        return known(self.trace, self.blocks, self._calls_in_blocks)

    @cached_property
    def _calls_in_blocks(self) -> list[CallsInBlocks] | None:
        if self.calls is None:
            return None
        return [calls.in_blocks(blocks) for calls, blocks in zip(self.calls, self.blocks, strict=True)]

    @cached_property
    def device_costs(self) -> list[DeviceCost | None]:
        """Of a call to devices, per process: what the thread says that has most blocks without recording."""
        found: list[DeviceCost | None] = [None] * len(self.trace.processes)
        for thread, blocks, calls in zip(self.trace.threads, self.blocks, self._calls_in_blocks or (), strict=False):
            said, other = of_thread(blocks, calls), found[thread.process]
            if said is not None and (other is None or said.num_muted > other.num_muted):
                found[thread.process] = said
        return found

    @cached_property
    def charges(self) -> list[Charges]:
        """Spans of each thread by interval."""
        calibration = self.trace.sites.index(CALIBRATION) if CALIBRATION in self.trace.sites else -1
        calls = self.calls or [None] * len(self.lines)
        fitted = [(0, 0) if cost is None else (cost.first_ns, cost.last_ns) for cost in self.device_costs]
        parts = zip(self.trace.threads, self.lines, self.blocks, calls, strict=True)
        return [
            Charges(thread, line, own, calibration, self.space, made, fitted[thread.process])
            for thread, line, own, made in parts
        ]

    @cached_property
    def _scenarios(self) -> Scenarios:
        used: list[set[int]] = [set() for _ in self.trace.processes]
        for charge in self.charges:
            spans = charge.of_states.sum(axis=0)[:CALLS].reshape(len(INSTRUMENTS), -1).sum(axis=1)
            used[charge.thread.process].update(np.flatnonzero(spans).tolist())
        return scenarios(self.costs, used, self.device_costs, unseen(self.trace, self.blocks))

    @cached_property
    def _moved(self) -> list[Moved | None]:
        if self.changes:
            return [None] * len(self.lines)
        return compact(self.trace, self.charges, self._scenarios, self.space)

    @cached_property
    def _earlier_ns(self) -> Floats:
        """How much earlier the session ends; [columns]. Threads that nothing is known of end as late as they did."""
        ends: list[Floats] = []
        nothing = np.zeros(self._scenarios.num + 2)
        last = max((int(t.time_ns[-1]) for t in self.trace.threads if t.num_events), default=0)
        for thread, moved in zip(self.trace.threads, self._moved, strict=True):
            if thread.num_events:
                ends.append(last - int(thread.time_ns[-1]) + (nothing if moved is None else moved.end_shift_ns))
        return np.min(ends, axis=0) if ends else nothing

    @property
    def wall(self) -> Interval | None:
        """The session's wall time; None where nothing can be corrected."""
        if all(moved is None for moved in self._moved):
            return None
        return interval(self.trace.end_ns - self.trace.begin_ns - self._earlier_ns)

    def of_thread(self, index: int) -> dict[int, Interval] | None:
        """By state; they sum to the corrected wall time. None where nothing can be corrected."""
        columns = self._columns(index)
        return None if columns is None else {code: interval(row) for code, row in columns.items()}

    def _columns(self, index: int) -> dict[int, Floats] | None:
        """A thread's corrected time in each state that occurs; [columns]."""
        moved, line, idle = self._moved[index], self.lines[index], self.space.code(IDLE)
        if moved is None:
            return None
        spent, removed = line.spent(), moved.removed_ns
        found = dict(zip(spent, np.array(list(spent.values()))[:, None] - removed, strict=True))
        # Before and after the thread: what is left of the session.
        found[idle] = spent.get(idle, 0) - (self._earlier_ns - removed[line.occurring != idle].sum(axis=0))
        return found

    def added(self) -> Interval | None:
        """What recording cost all threads together, waits not counted: spans, and what CUPTI says of itself. None where
        no cost is known of any thread.
        """
        if self.charges and all(self._scenarios.of_process[one.thread.process] is None for one in self.charges):
            return None
        total = np.zeros(self._scenarios.num + 2)
        for charge in self.charges:
            costs = self._scenarios.of_process[charge.thread.process]
            if costs is not None:
                spent = charge.of_states.sum(axis=0)
                spent[RAN] = 0.0
                likely = spent @ costs
                total += np.concatenate([likely, likely[:1], likely[:1]])
        return interval(total)

    def overlaps(self) -> Mapping[int, Interval] | None:
        """Per mask of classes and operations (overlap.py), of the compacted time lines."""
        if not self.lines or any(moved is None for moved in self._moved):
            return None
        if len(self.lines) == 1:  # nobody beside it: each state is a combination of its own
            return self._overlaps_of_one()
        columns: list[dict[int, float]] = []
        for column in range(self._scenarios.num + 2):
            edges = [self._edges(index, column) for index in range(len(self.lines))]
            columns.append(overlap.totals(edges, [line.state for line in self.lines], self.space))
        codes = dict.fromkeys(code for found in columns for code in found)
        return {code: interval(np.array([found.get(code, 0.0) for found in columns])) for code in codes}

    def _overlaps_of_one(self) -> Mapping[int, Interval]:
        columns = self._columns(0)
        assert columns is not None
        sums: dict[int, Floats] = {}
        for code, row in columns.items():
            if row.any():
                mask = overlap.mask_of(code, self.space)
                sums[mask] = sums.get(mask, 0.0) + row
        return {mask: interval(row) for mask, row in sums.items()}

    def _edges(self, index: int, column: int) -> Floats:
        """The time line of a thread without recording. An interval that came out negative is empty."""
        moved, line = self._moved[index], self.lines[index]
        assert moved is not None
        places = np.arange(len(line.edge_ns))
        costs = self._scenarios.of_process[self.trace.threads[index].process]
        assert costs is not None
        base = moved.base_ns[np.searchsorted(moved.place, places, side="right") - 1, column]
        likely = column if column < costs.shape[1] else 0
        edges = line.edge_ns - self.trace.begin_ns - base - self.charges[index].before(places) @ costs[:, likely]
        edges[0], edges[-1] = 0.0, self.trace.end_ns - self.trace.begin_ns - self._earlier_ns[column]
        return np.minimum(np.maximum.accumulate(np.maximum(edges, 0.0)), edges[-1])

    def ledger(self) -> list[dict[str, object]]:
        """Per process and instrument what a span costs, how that is known, and how many blocks said so."""
        found: list[dict[str, object]] = []
        for number, process in enumerate(self.trace.process_names):
            own = [b for b, thread in zip(self.blocks, self.trace.threads, strict=True) if thread.process == number]
            for place, name in enumerate(INSTRUMENTS):
                cost = self.costs[number][place]
                about = {"process": process, "instrument": name, "num_spans": self._num_spans(number, place)}
                about["num_blocks"] = sum(len(blocks) for blocks in own)
                about["num_muted_blocks"] = sum(int(blocks.muted[:, place].sum()) for blocks in own)
                found.append({**about, **_as_json(cost)})
        return found

    def _num_spans(self, process: int, instrument: int) -> int:
        """Recorded by this instrument in a process."""
        mine = [charge for charge in self.charges if charge.thread.process == process]
        return sum(int(charge.of_states[:, 3 * instrument].sum()) for charge in mine)


def _as_json(cost: Cost | None) -> dict[str, object]:
    """With the same names where nothing is known of it."""
    return {
        "recorded_ns": cost and cost.recorded_ns,
        "recorded_se_ns": cost and cost.recorded_se_ns,
        "disabled_ns": cost and cost.disabled_ns,
        "disabled_se_ns": cost and cost.disabled_se_ns,
        "this_run": cost and cost.estimate and cost.estimate._asdict(),
        "expected": cost and cost.expected and cost.expected._asdict(),
        "source": cost.source if cost else "not identifiable",
    }
