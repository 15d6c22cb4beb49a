"""From a thread's events to its time line: which state from when to when, exactly and without gaps.

events -> innermost open site after each event -> state after each event -> Timeline

A site sets some of operation, class and phase and inherits the others from the site around it, as long as that is
there. Everything is vectorised; a stack that was left out of order (by a generator, say) is walked event by event
instead, as `reference.py` does for all.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope import acting, reference, rules
from drivetrain.scope.reference import Frames
from drivetrain.scope.states import BASE, IDLE, UNKNOWN, StateSpace
from drivetrain.scope.trace.blocks import mask_of_events
from drivetrain.scope.trace.events import BEGIN, END, LANE, RESUMED, Thread, Trace

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Timeline:
    """State `state[i]` holds from `edge_ns[i]` to `edge_ns[i + 1]`; the first edge is the session's begin, the last
    its end.
    """

    edge_ns: Ints
    state: NDArray[np.int32]
    entered: NDArray[np.int32]
    """The state of each site entered, in order (not of those only resumed) ..."""
    entered_from: NDArray[np.int32]
    """... and the state around it."""
    edge_of_event: Ints
    """Which edges are the session's begin, the thread's events in order, and the session's end: all but those that were
    added since.
    """

    def divided_at(self, times_ns: Ints) -> "Timeline":
        """The same with edges at more times, each behind the edges that are there at that time; not at its end."""
        times_ns = np.sort(times_ns[(times_ns >= self.edge_ns[0]) & (times_ns < self.edge_ns[-1])])
        at = np.searchsorted(self.edge_ns, times_ns, side="right")
        return replace(
            self,
            edge_ns=np.insert(self.edge_ns, at, times_ns),
            state=np.insert(self.state, at, self.state[at - 1]),
            edge_of_event=self.edge_of_event + np.searchsorted(times_ns, self.edge_ns[self.edge_of_event], side="left"),
        )

    @cached_property
    def occurring(self) -> NDArray[np.int32]:
        """The states in it, ascending: few of those that a trace with many operations and phases could have."""
        return np.unique(self.state)

    @property
    def place(self) -> Ints:
        """Of each state among those that occur."""
        return np.searchsorted(self.occurring, self.state)

    def spent(self) -> dict[int, int]:
        """Nanoseconds by state that occurs; they sum to the session's wall time."""
        sums = np.bincount(self.place, np.diff(self.edge_ns), len(self.occurring)).astype(np.int64)
        return dict(zip(self.occurring.tolist(), sums.tolist(), strict=True))

    def totals(self, num_states: int, within: tuple[int, int] | None = None) -> Ints:
        """Nanoseconds in each state, of the whole session or between two times; they sum to its wall time."""
        edge_ns = self.edge_ns if within is None else np.clip(self.edge_ns, *within)
        # Sums of integers below 2^53 are exact in float64: 104 days.
        return np.bincount(self.state, np.diff(edge_ns), num_states).astype(np.int64)


def timeline(trace: Trace, thread: Thread, space: StateSpace) -> Timeline:
    """The time line of one thread."""
    begins = np.flatnonzero(thread.kind == BEGIN)
    frames = innermost(thread)
    own = own_parts(space, thread.site[begins], begins, frames.begin_around)
    after, around = _states(frames, own[:, frames.begin], space)
    around = around[: len(begins)]
    if (mask := mask_of_events(thread)) is not None:
        unknown = space.code(UNKNOWN)
        after, around = np.where(mask != 0, unknown, after), np.where(mask[begins] != 0, unknown, around)
    idle = space.code(IDLE)
    edges = np.concatenate([[trace.begin_ns], thread.time_ns, [trace.end_ns]])
    states = np.concatenate([[idle], after]).astype(np.int32)
    if thread.num_events:
        states[-1] = idle
    new = thread.value[begins] & RESUMED == 0
    entered, entered_from = after[begins[new]].astype(np.int32), around[new].astype(np.int32)
    return Timeline(edges, states, entered, entered_from, np.arange(len(edges)))


def own_parts(space: StateSpace, entered: NDArray[np.int32], begins: Ints, parent: Ints) -> NDArray[np.int32]:
    """What each begin event sets of [operation, class, phase], -1 where it inherits, and the operation that is presumed
    of it where none is set around it, -1 for none; shape [4, begins].
    """
    if not len(begins):
        return np.zeros((4, 0), np.int32)
    parts = np.stack([part[entered] for part in (*space.set_by, space.presumed)])
    inference, backpropagation = map(space.operations.index, ("inference", "backpropagation"))
    if acting.is_asked(space.sites):
        purposes = acting.purposes(entered, parent, space.sites)
        parts[3] = np.where(purposes.is_acting, inference, parts[3])
        parts[3] = np.where(purposes.is_update, backpropagation, parts[3])
    if rules.has_forward(space.sites):
        what = rules.following(begins, entered, space.sites)
        forward, presumed = space.is_forward[entered], space.is_presumed_forward[entered] & what.simulates
        parts[0] = np.where(forward, np.where(what.is_update, backpropagation, inference), parts[0])
        parts[3] = np.where(presumed & what.is_step, inference, parts[3])
        parts[3] = np.where(presumed & what.is_update, backpropagation, parts[3])
    return parts


def _states(frames: Frames, own: NDArray[np.int32], space: StateSpace) -> tuple[Ints, Ints]:
    """The code after each event, and the code around each frame."""
    base = np.array(space.parts(BASE), np.int64)
    parts = _inherited(own[:3].astype(np.int64), own[3].astype(np.int64), frames.around, base)
    padded = np.append(space.codes(*parts), space.code(BASE))  # index -1: outside all sites
    return padded[frames.inner], padded[frames.around]


def _inherited(own: Ints, presumed: Ints, parent: Ints, base: Ints) -> Ints:
    """Fill in what frames inherit, or what is presumed where that is nothing: level by level, from the top."""
    parts = own.copy()
    level = _levels(parent)
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(1, int(level.max(initial=0)) + 2))
    for first, last in pairwise(bounds.tolist()):
        at = order[first:last]
        above = np.where(parent[at] < 0, base[:, None], parts[:, np.maximum(parent[at], 0)])
        above[0] = np.where((above[0] == base[0]) & (presumed[at] >= 0), presumed[at], above[0])
        parts[:, at] = np.where(parts[:, at] < 0, above, parts[:, at])
    return parts


def _levels(parent: Ints) -> Ints:
    """1 for frames outside all others, one more than its parent's for the others."""
    level = np.ones(len(parent), np.int64)
    above = parent
    while (above >= 0).any():
        level += above >= 0
        above = np.where(above >= 0, parent[np.maximum(above, 0)], -1)
    return level


def innermost(thread: Thread) -> Frames:
    """What the thread's stacks held, as `reference.innermost` finds it; a frame for each begin where all were left in
    order.
    """
    kind, site = thread.kind, thread.site
    if (kind == LANE).any() and thread.site[kind == LANE].any():
        return reference.innermost(kind, site)
    delta = (kind == BEGIN).astype(np.int32) - (kind == END)
    depth = np.cumsum(delta)
    begins = np.flatnonzero(delta == 1)
    inner = _last_at_depth(depth, begins, kind != BEGIN)
    inner[begins] = np.arange(len(begins))
    before = np.concatenate([[-1], inner[:-1]]) if len(inner) else inner
    ends = np.flatnonzero(delta == -1)
    in_order = depth.min(initial=0) >= 0 and np.array_equal(site[begins][before[ends]], site[ends])
    if not in_order:
        return reference.innermost(kind, site)
    return Frames(inner, before[begins], np.arange(len(begins)))


def _last_at_depth(depth: NDArray[np.int32], begins: Ints, wanted: NDArray[np.bool_]) -> Ints:
    """For wanted events, which begin last reached the event's depth; -1 at depth 0."""
    size = len(depth)
    result = np.full(size, -1, np.int64)
    if not len(begins) or depth.min(initial=0) < 0:
        return result
    level = depth[begins]
    order = np.argsort(level, kind="stable")
    keys = level[order].astype(np.int64) * size + begins[order]
    asked = np.flatnonzero(wanted & (depth > 0))
    at = np.searchsorted(keys, depth[asked].astype(np.int64) * size + asked, side="right") - 1
    result[asked] = order[at]
    return result
