"""Programs on paper whose recording costs what was planted: what they would have taken alone is known exactly."""

import numpy as np
from brute import thread_of

from drivetrain.scope.sites import UNRECORDED, Site
from drivetrain.scope.trace.events import BEGIN, BLOCK, COUNT, END, STEP, THREAD_END, Process, Trace

SITES = (
    Site("step", "simulation", "simulator"),
    Site("update", "backpropagation", "backend"),
    Site("recv", "", "wait"),
    UNRECORDED,
)
STEP_SITE, UPDATE_SITE, WAIT_SITE = range(3)


class Writer:
    """Events of a thread at a clock that recording delays."""

    def __init__(self, now=0, *, inside_ns=0.0, around_ns=0.0, slower=0.0):
        self.now, self.events, self.values = float(now), [], []
        self.inside_ns, self.around_ns = inside_ns, around_ns
        self.slower = slower  # by which share all work is while it is recorded
        self.muted, self.spans, self.alone = False, 0, {}

    def put(self, kind, site=0, value=0):
        self.events.append((int(self.now), kind, site))
        self.values.append(value)

    def work(self, ns, what):
        self.now += ns if self.muted else (1 + self.slower) * ns
        self.alone[what] = self.alone.get(what, 0.0) + ns

    def span(self, site, ns, what):
        """Enter, work, leave."""
        self.spans += 1
        inside_ns, around_ns = (0.0, 0.0) if self.muted else (self.inside_ns, self.around_ns)
        self.now += around_ns / 2
        if not self.muted:
            self.put(BEGIN, site)
        self.now += inside_ns
        self.work(ns, what)
        if not self.muted:
            self.put(END, site)
        self.now += around_ns / 2

    def thread(self, **about):
        found = thread_of(self.events, **about)
        found.value[:] = self.values
        return found


def trace_of_planted(threads, end_ns, *, parents=(1,), alone_ns=None, prior=None):
    """A trace of these threads, each process number i having pid 7 + i."""
    processes = tuple(
        Process(pid=7 + i, start=i + 1, parent=parent, argv=(), alone_ns=alone_ns or {})
        for i, parent in enumerate(parents)
    )
    about = {"prior": prior or {}}
    return Trace(begin_ns=0, end_ns=end_ns, sites=SITES, processes=processes, threads=tuple(threads), about=about)


def program_in_blocks(
    seed,
    *,
    inside_ns=150.0,
    around_ns=250.0,
    rounds=30,
    every=5,
    steps=20,
    noise=0.05,
    tails=0.0,
    unseen=0.0,
):
    """A trace in blocks, and what it would have taken alone in blocks that were recorded, by (operation, class).

    `unseen` is by which share recording slows everything, beside what its spans cost.

    Steps hold one to three spans of a simulator; every fourth, on average, an update of its own length follows.
    """
    rng = np.random.default_rng(seed)
    w = Writer(inside_ns=inside_ns, around_ns=around_ns, slower=unseen)
    w.put(STEP, 0, 1)
    for _ in range(rounds):
        chosen = rng.integers(every)
        for block in range(every):
            w.muted = bool(block == chosen)
            w.put(BLOCK, 3 if w.muted else 0, int(block == 0))
            slower = float(np.exp(noise * rng.standard_normal())) + (rng.random() < tails) * rng.exponential(2.0)
            begin, w.spans, num_updates = w.now, 0, 0
            for _ in range(steps):
                what = ("unrecorded", "unrecorded") if w.muted else None
                w.work(slower * 4000, what or ("other", "python"))
                for _ in range(rng.integers(1, 4)):
                    w.span(STEP_SITE, slower * 3000, what or ("simulation", "simulator"))
                if rng.random() < 0.25:
                    num_updates += 1
                    w.span(UPDATE_SITE, slower * 20000, what or ("backpropagation", "backend"))
                if not w.muted:
                    w.put(STEP, 0, 1)
            counts = [int(w.now - begin), 0, w.spans, 0, 0, steps, num_updates]
            for which, count in zip([0, 1, 2, 3, 8, 9, 10], counts, strict=True):
                w.put(COUNT, count, which)
            w.spans = 0
    w.put(BLOCK, 0, 2)
    w.put(THREAD_END)
    return trace_of_planted([w.thread()], int(w.now)), w.alone


def gather(seed, *, inside_ns, around_ns, num_workers=3, rounds=20):
    """A process that hands work to others and waits for each: (recorded trace, threads as they are alone).

    The same work is laid out with and without what recording costs; the waits come out of who is late.
    """
    rng = np.random.default_rng(seed)
    work = rng.integers(10_000, 200_000, (rounds, num_workers + 1))
    spans = rng.integers(1, 40, (rounds, num_workers + 1))
    recorded = _laid_out(work, spans, inside_ns, around_ns)
    alone = _laid_out(work, spans, 0.0, 0.0)
    threads = [w.thread(process=i, tid=7 + i) for i, w in enumerate(recorded)]
    end_ns = max(int(w.now) for w in recorded)
    parents = (1, *[7] * num_workers)
    costs = {"call": (inside_ns + around_ns, 0.0), "annotation": (0.0, 0.0)}  # waits are annotated, for nothing
    exact = {"call": (1.0, 0.0), "annotation": (1.0, 0.0)}
    return trace_of_planted(threads, end_ns, parents=parents, alone_ns=costs, prior=exact), alone


def _laid_out(work, spans, inside_ns, around_ns):
    """Main works, then waits for each worker in turn; workers begin when main has worked, and wait for that."""
    num_rounds, num = work.shape
    writers = [Writer(inside_ns=inside_ns, around_ns=around_ns) for _ in range(num)]
    for w in writers:
        w.put(STEP, 0, 1)
    for turn in range(num_rounds):
        main = writers[0]
        _busy(main, work[turn, 0], spans[turn, 0])
        for k in range(1, num):
            _wait_until(writers[k], main.now)
        for k in range(1, num):
            _busy(writers[k], work[turn, k], spans[turn, k])
        for k in range(1, num):
            _wait_until(main, writers[k].now)
    for w in writers:
        w.put(THREAD_END)
    return writers


def _busy(w, ns, num_spans):
    for _ in range(num_spans):
        w.work(500.0, ("other", "python"))
        w.span(STEP_SITE, ns / num_spans, ("simulation", "simulator"))


def _wait_until(w, time_ns):
    if time_ns <= w.now:
        return
    w.events.append((int(w.now), BEGIN, WAIT_SITE))
    w.values.append(1)  # by another instrument, which is planted to cost nothing
    w.work(time_ns - w.now, ("other", "wait"))
    w.events.append((int(w.now), END, WAIT_SITE))
    w.values.append(1)
