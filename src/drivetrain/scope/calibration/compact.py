"""Time lines without what recording added: each thread's spans shrink, and who waited for it waits as much less.

    S_A(t): how much earlier thread A would have come to what it does at t
      runs    S grows by what recording cost there
      waits   S_A(end) = min(S_A(begin) + length of the wait, S_B(end)), B being who ended the wait
      starts  S_A(begin) = S_B(begin), B being who started it

A wait that nobody recorded can have ended (a timer, the network) keeps its length. Who ended a wait is not in the
trace: of the threads that ran while it lasted, those of the same process, its parent and its children come first,
and of them the one that itself began to rest nearest to the end, for who hands something over mostly waits next. What
if it was another one is in the bounds: `earliest` and `latest` are the same with the largest and the smallest S of all
that may have.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.calibration.charges import NUM_PARTS, Charges, Floats, Scenarios
from drivetrain.scope.sites import CLASSES
from drivetrain.scope.states import StateSpace
from drivetrain.scope.trace.events import Trace

Ints = NDArray[np.int64]
_HANDOVER_NS = 1_000_000
"""Whoever began to rest within this time of a wait's end is the likelier to have ended it, the nearer the likelier."""


@dataclass(frozen=True, eq=False)
class Moved:
    """A thread's corrections; columns: the scenarios, then `earliest` and `latest` of who ended its waits."""

    removed_ns: Floats
    """[states that occur, columns]: what each state of the time line is shorter by."""
    place: Ints
    """Edges of the time line from which on ..."""
    base_ns: Floats
    """... this is added to what recording cost up to an edge, to tell how much earlier it comes; [places, columns]."""
    end_shift_ns: Floats
    """How much earlier the thread ends; [columns]."""


class _Wait(NamedTuple):
    end_ns: int
    thread: int
    first: int
    """Edge at which it begins; the end is the next edge. -1: the thread itself begins."""
    candidates: "list[_Candidate]"


class _Candidate(NamedTuple):
    is_far: bool
    """Neither of the same process nor its parent or child."""
    distance_ns: int
    """From the end of the wait to where it began to rest; `_HANDOVER_NS` and more are alike."""
    thread: int
    until_ns: int
    """Until when it ran, at most the end of the wait."""


def compact(trace: Trace, charges: Sequence[Charges], scenarios: Scenarios, space: StateSpace) -> list[Moved | None]:
    """Per thread; None where nothing is known of the costs in its process."""
    costs = scenarios.of_process
    lines = [_Line(charge, costs[charge.thread.process], scenarios.num, space) for charge in charges]
    runs = np.array([[line.runs_from for line in lines], [line.runs_to for line in lines]])
    waits = [wait for number in range(len(lines)) for wait in _waits(trace, lines, number, runs)]
    for line in lines:
        line.prepare()
    for wait in sorted(waits, key=lambda wait: (wait.end_ns, wait.first >= 0)):
        _settle(lines, wait)
    return [line.moved() if line.is_known else None for line in lines]


class _Line:
    """A thread while its waits are being moved, in order of their ends."""

    def __init__(self, charges: Charges, costs: Floats | None, num: int, space: StateSpace) -> None:
        self.charges, self.line, self.is_known = charges, charges.line, costs is not None
        costs = np.zeros((NUM_PARTS, num)) if costs is None else costs
        # The last two columns: likely costs, other waits.
        self.costs = np.concatenate([costs, costs[:, :1], costs[:, :1]], axis=1)
        kind = space.class_of(self.line.state)
        self.waits = np.flatnonzero((kind == CLASSES.index("wait")) & (np.diff(self.line.edge_ns) > 0))
        is_rest = (kind == CLASSES.index("wait")) | (kind == CLASSES.index("idle"))
        rests, runs = np.flatnonzero(is_rest), np.flatnonzero(~is_rest)
        # Before and after these it does nothing but rest.
        self.runs_from = int(self.line.edge_ns[runs[0]]) if len(runs) else np.iinfo(np.int64).max
        self.runs_to = int(self.line.edge_ns[runs[-1] + 1]) if len(runs) else np.iinfo(np.int64).min
        self.rest_from, self.rest_to = self.line.edge_ns[rests], self.line.edge_ns[rests + 1]
        # Rests that touch are one: where each of them begins, and, behind the last, where the next one would.
        touches = np.concatenate([[False], self.rest_from[1:] == self.rest_to[:-1]])[: len(rests)]
        self._rest_begin = self.rest_from[np.maximum.accumulate(np.where(touches, 0, np.arange(len(rests))))]
        self._next_rest = np.append(self.rest_from, np.iinfo(np.int64).max)
        self.base = np.zeros(self.costs.shape[1])
        self.places, self.bases = [0], [self.base]
        self.saved = np.zeros((len(self.line.occurring), self.costs.shape[1]))
        self._wanted: list[Ints] = []
        self._cost_before: dict[int, Floats] = {}

    @property
    def begin_ns(self) -> int:
        """Its first event; the session's end if it has none."""
        return int(self.line.edge_ns[self.line.edge_of_event[1]])

    def want(self, places: Ints) -> None:
        """What recording had cost by these edges will be asked for."""
        self._wanted.append(places)

    def prepare(self) -> None:
        """Look up what is wanted, all at once: each look goes through the whole line."""
        if not self._wanted:
            return
        wanted = np.unique(np.concatenate(self._wanted))
        self._wanted.clear()
        for place, cost in zip(wanted.tolist(), self.charges.before(wanted) @ self.costs, strict=True):
            self._cost_before[place] = cost

    def cost_before(self, place: int) -> Floats:
        """What recording had cost the thread by an edge, [columns]."""
        found = self._cost_before.get(place)
        if found is None:
            found = self._cost_before[place] = self.charges.before(np.array([place]))[0] @ self.costs
        return found

    def shift(self, place: int) -> Floats:
        """S at an edge behind all waits that are settled."""
        return self.base + self.cost_before(place)

    def shift_at(self, time_ns: int) -> Floats:
        """S at any time, also before waits that are settled."""
        place = int(np.searchsorted(self.line.edge_ns, time_ns, side="right")) - 1
        return self.bases[bisect_right(self.places, place) - 1] + self.cost_before(place)

    def ran_until(self, times: Ints) -> tuple[Ints, Ints]:
        """The last time up to each at which the thread ran, and how far from it the thread began to rest."""
        if not len(self.rest_from):
            return times, np.full(len(times), _HANDOVER_NS)
        at = np.searchsorted(self.rest_from, times, side="left") - 1
        rests = (at >= 0) & (self.rest_to[np.maximum(at, 0)] >= times)
        until = np.where(rests, self._rest_begin[np.maximum(at, 0)], times)
        distance = np.where(rests, times - until, self._next_rest[at + 1] - times)
        return until, np.minimum(distance, _HANDOVER_NS)

    def set_shift(self, place: int, shift: Floats) -> None:
        """S at an edge, from there on."""
        self.base = shift - self.cost_before(place)
        self.places.append(place)
        self.bases.append(self.base)

    def moved(self) -> Moved:
        """What came out."""
        last = len(self.line.state)
        removed = self.charges.of_states @ self.costs + self.saved
        return Moved(removed, np.array(self.places), np.stack(self.bases), self.shift(max(last - 1, 0)))


def _waits(trace: Trace, lines: Sequence[_Line], number: int, runs: Ints) -> list[_Wait]:
    """The waits of a thread, and its begin, with who may have ended them: of thousands of threads few ran meanwhile.

    `runs` is between which times each line runs at all, [2, lines].
    """
    mine = lines[number]
    if mine.charges.thread.num_events == 0:
        return []
    start = _Wait(mine.begin_ns, number, -1, _starter(trace, lines, number))
    if len(lines) == 1 or not len(mine.waits):
        return [start] if start.candidates else []
    begin, end = mine.line.edge_ns[mine.waits], mine.line.edge_ns[mine.waits + 1]
    candidates: list[list[_Candidate]] = [[] for _ in mine.waits]
    for other in np.flatnonzero((runs[0] < end.max()) & (runs[1] > begin.min())).tolist():
        if other == number:
            continue
        line = lines[other]
        until, distance = line.ran_until(end)
        is_far = not _is_near(trace, mine.charges.thread.process, line.charges.thread.process)
        asked = np.flatnonzero(until > begin)
        line.want(np.searchsorted(line.line.edge_ns, until[asked], side="right") - 1)
        for i in asked.tolist():
            candidates[i].append(_Candidate(is_far, int(distance[i]), other, int(until[i])))
    mine.want(np.concatenate([mine.waits, mine.waits + 1]))
    waits = [
        _Wait(int(end[i]), number, int(first), candidates[i]) for i, first in enumerate(mine.waits) if candidates[i]
    ]
    return [start, *waits] if start.candidates else waits


def _starter(trace: Trace, lines: Sequence[_Line], number: int) -> list[_Candidate]:
    """Who started a thread: the main thread of its process; who started that: the main thread of what the process was
    before os.exec, or of its parent.
    """
    thread, begin = lines[number].charges.thread, lines[number].begin_ns
    is_main = thread.tid == trace.processes[thread.process].pid
    starter = trace.origins[thread.process] if is_main else thread.process
    for other, line in enumerate(lines):
        one = line.charges.thread
        if one.process == starter and one.tid == trace.processes[starter].pid and line.begin_ns < begin:
            return [_Candidate(False, 0, other, begin)]
    return []


def _is_near(trace: Trace, process: int, other: int) -> bool:
    one, two = trace.processes[process], trace.processes[other]
    return process == other or two.parent == one.pid or one.parent == two.pid


def _settle(lines: Sequence[_Line], wait: _Wait) -> None:
    """Move the end of a wait, all before it being moved already."""
    mine = lines[wait.thread]
    among = [one for one in wait.candidates if one.is_far == min(wait.candidates).is_far]
    # Who has rested for long by then can hardly have ended it.
    among = [one for one in among if one.until_ns >= wait.end_ns - _HANDOVER_NS] or among
    shifts = [lines[one.thread].shift_at(one.until_ns) for one in among]
    best = min(range(len(among)), key=lambda i: (among[i].distance_ns, -among[i].until_ns, tuple(shifts[i])))
    until = shifts[best].copy()
    until[-2] = max(shift[-2] for shift in shifts)
    until[-1] = min(shift[-1] for shift in shifts)
    if wait.first < 0:
        mine.set_shift(int(mine.line.edge_of_event[1]), until)
        return
    before = mine.shift(wait.first)
    length = mine.line.edge_ns[wait.first + 1] - mine.line.edge_ns[wait.first]
    after = np.minimum(before + length, until)
    charged = mine.cost_before(wait.first + 1) - mine.cost_before(wait.first)
    mine.saved[np.searchsorted(mine.line.occurring, mine.line.state[wait.first])] += (after - before) - charged
    mine.set_shift(wait.first + 1, after)
