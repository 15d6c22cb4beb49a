"""The oracle: time lines and overlaps by walking, and random traces."""

from collections import Counter

import numpy as np
from hypothesis import strategies as st

from drivetrain.scope.sites import Site
from drivetrain.scope.trace.events import BEGIN, END, LANE, STEP, THREAD_END, Process, Thread, Trace

SITES = (
    Site("act", "inference", "python"),
    Site("Env.step", "simulation", "simulator"),
    Site("matmul", "", "backend"),
    Site("warm-up", "", "", "warm-up"),
    Site("gc", "", "gc"),
    Site("mine", "mine", "python", "late"),
    Site("recv", "", "wait"),
    Site("jit update", "", "backend", presumed="backpropagation"),
)


def thread_of(events, *, process=0, number=0, tid=7):
    """A thread from tuples (time, kind, site)."""
    columns = list(zip(*events, strict=True)) if events else [(), (), ()]
    return Thread(
        process=process,
        number=number,
        tid=tid,
        name="",
        time_ns=np.array(columns[0], np.int64),
        kind=np.array(columns[1], np.uint8),
        site=np.array(columns[2], np.int32),
        value=np.zeros(len(events), np.uint16),
    )


def trace_of(threads, begin_ns=0, end_ns=1000, sites=SITES):
    processes = tuple(
        Process(pid=7 + i, start=1, parent=1, argv=(), alone_ns={"call": (3.0, 1.0)})
        for i in range(1 + max((t.process for t in threads), default=0))
    )
    return Trace(begin_ns=begin_ns, end_ns=end_ns, sites=sites, processes=processes, threads=tuple(threads), about={})


def states_by_walking(trace, thread):
    """[(from, to, (operation, class, phase))] of one thread."""
    stacks, lane = {0: []}, 0
    pieces, since, state = [], trace.begin_ns, ("other", "idle", "")
    for time_ns, kind, site in zip(thread.time_ns.tolist(), thread.kind.tolist(), thread.site.tolist(), strict=True):
        pieces.append((since, time_ns, state))
        since = time_ns
        if kind == LANE:
            lane = site
        stack = stacks.setdefault(lane, [])
        if kind == BEGIN:
            stack.append(site)
        if kind == END and site in stack:
            del stack[len(stack) - 1 - stack[::-1].index(site)]
        state = state_of([trace.sites[site] for site in (stacks[0] + stack if lane else stack)])
    pieces.append((since, trace.end_ns, ("other", "idle", "") if len(thread.time_ns) else state))
    return pieces


def state_of(inside):
    """What a thread is in that is in these sites, outermost first."""
    operation, time_class, phase = "other", "python", ""
    for site in inside:
        presumed = site.presumed if site.presumed and operation == "other" else operation
        operation, time_class, phase = site.operation or presumed, site.time_class or time_class, site.phase or phase
    return operation, time_class, phase


def totals_by_walking(trace, thread):
    totals = Counter()
    for first, last, state in states_by_walking(trace, thread):
        totals[state] += last - first
    return {state: ns for state, ns in totals.items() if ns}


def overlaps_by_walking(trace):
    """(classes, operations) -> ns, one nanosecond after the other."""
    lines = [states_by_walking(trace, thread) for thread in trace.threads]
    totals = Counter()
    for now in range(trace.begin_ns, trace.end_ns):
        states = [state for line in lines for first, last, state in line if first <= now < last]
        busy = [state for state in states if state[1] != "idle"]
        totals[frozenset(s[1] for s in busy), frozenset(s[0] for s in busy)] += 1
    return dict(totals)


@st.composite
def threads(draw, begin_ns, end_ns, *, in_order=True, lanes=False, most=40):
    """A thread's events: properly nested, or with ends in any order; on one stack, or on several."""
    size = draw(st.integers(0, most))
    times = sorted(draw(st.lists(st.integers(begin_ns, end_ns), min_size=size, max_size=size)))
    open_sites, events = [], []
    for time_ns in times:
        kinds = [BEGIN, BEGIN, STEP] + [END] * 3 * bool(open_sites) + [LANE] * lanes
        kind = draw(st.sampled_from(kinds))
        site = draw(st.integers(0, len(SITES) - 1))
        if kind == BEGIN:
            open_sites.append(site)
        elif kind == END:
            site = open_sites.pop(-1 if in_order else draw(st.integers(0, len(open_sites) - 1)))
        elif kind == LANE:
            site = draw(st.integers(0, 2))
        else:
            site = 0
        events.append((time_ns, kind, site))
    if events and draw(st.booleans()):
        events.append((times[-1], THREAD_END, 0))
    return thread_of(events)


@st.composite
def traces(draw, *, in_order=True, lanes=False, most=40, end_ns=200):
    num = draw(st.integers(1, 3))
    found = [draw(threads(0, end_ns, in_order=in_order, lanes=lanes, most=most)) for _ in range(num)]
    return trace_of(found, 0, end_ns)
