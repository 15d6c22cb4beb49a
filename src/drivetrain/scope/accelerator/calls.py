"""Calls of the driver's interfaces as classes of their threads' time: launching, waiting for a device, recording.

    time line of a thread + its calls -> the same time line, where calls are `accelerator_api`, `accelerator_sync` or
    `profiler`; operation and phase stay, and so does the sum

A call inside another (the runtime's calls the driver's) adds nothing. Waiting goes before calling, and what recording
took before both. What is muted, or not known to run at all, has no operation to stay: there the call's own is put.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.intervals import Intervals, Ints
from drivetrain.scope.sites import CLASSES
from drivetrain.scope.states import IDLE, UNKNOWN, StateSpace
from drivetrain.scope.timeline import Timeline
from drivetrain.scope.trace.events import Thread, Trace
from drivetrain.scope.trace.gpu import (
    DRIVER,
    OVERHEAD,
    OWN_OVERHEAD,
    RUNTIME,
    STREAM_WAIT_EVENT,
    SYNC,
    GpuApi,
    GpuTrace,
)

API, WAITING, RECORDING = (CLASSES.index(name) for name in ("accelerator_api", "accelerator_sync", "profiler"))
BY_PRECEDENCE = (API, WAITING, RECORDING)
NO_CLASS = -1


@dataclass(frozen=True, eq=False)
class Calls:
    """Calls by the thread that made them."""

    api: GpuApi
    """Threads filled in where they were known by the correlation only."""
    time_class: NDArray[np.int64]
    """Index into the classes of time; NO_CLASS for what takes no thread's time, or would without recording too."""
    of_thread: dict[tuple[int, int], Ints]
    """(process, tid) -> rows, in order of their begin; of threads of the program."""


def calls_of(gpu: GpuTrace, known: Set[tuple[int, int]]) -> Calls:
    """The calls of a trace.

    Args:
        gpu: Its records.
        known: (process, tid) of its threads. Others are the program's too if they called anything; where only
            recording took time, they are CUPTI's own.
    """
    api = _with_threads(gpu.api)
    waits = np.array(["Synchronize" in name for name in gpu.names], np.bool_)
    called = (api.kind == RUNTIME) | (api.kind == DRIVER)
    waited = (api.kind == SYNC) & (api.detail != STREAM_WAIT_EVENT)
    waited |= called & waits[api.name] if len(waits) else np.zeros(len(api), np.bool_)
    recorded = (api.kind == OVERHEAD) & np.isin(api.detail, OWN_OVERHEAD)
    time_class = np.select([recorded, waited, called], [RECORDING, WAITING, API], NO_CLASS)
    order = np.lexsort((api.begin_ns, api.tid, api.process))
    bounds = np.flatnonzero((np.diff(api.process[order]) != 0) | (np.diff(api.tid[order]) != 0)) + 1
    groups = np.split(order, bounds) if len(order) else []
    of_thread = {(int(api.process[rows[0]]), int(api.tid[rows[0]])): rows for rows in groups}
    is_of_program = {
        key: key[1] != 0 and (key in known or bool((api.kind[rows] != OVERHEAD).any()))
        for key, rows in of_thread.items()
    }
    return Calls(api, time_class, {key: rows for key, rows in of_thread.items() if is_of_program[key]})


def _with_threads(api: GpuApi) -> GpuApi:
    """Synchronisations and overheads have the thread of the call that they happened in."""
    callers = np.flatnonzero(((api.kind == RUNTIME) | (api.kind == DRIVER)) & (api.tid != 0))
    unknown = np.flatnonzero((api.tid == 0) & (api.correlation != 0))
    found = first_by_correlation(api, callers, api.process[unknown], api.correlation[unknown])
    tid = api.tid.copy()
    tid[unknown[found >= 0]] = api.tid[found[found >= 0]]
    return replace(api, tid=tid)


def first_by_correlation(
    api: GpuApi, among: Ints, process: NDArray[np.int32], correlation: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """Per process and correlation number the row of `among` that has them and began first; -1 for none."""
    ordered = among[np.argsort(api.begin_ns[among], kind="stable")]
    keys, first = np.unique(_key(api.process[ordered], api.correlation[ordered]), return_index=True)
    asked = _key(process, correlation)
    at = np.searchsorted(keys, asked)
    hit = np.append(keys, 0)[at] == asked
    hit &= at < len(keys)
    return np.where(hit, np.append(ordered[first], -1)[at], -1)


def _key(process: NDArray[np.int32], correlation: NDArray[np.uint32]) -> Ints:
    return process.astype(np.int64) << 32 | correlation.astype(np.int64)


def with_calling_threads(trace: Trace, calls: Calls) -> Trace:
    """The trace with a thread, without events, for each that called and entered no site (autograd's, a library's)."""
    known = {(thread.process, thread.tid) for thread in trace.threads}
    threads = list(trace.threads)
    for process, tid in sorted(calls.of_thread.keys() - known):
        number = 1 + max((t.number for t in threads if t.process == process), default=-1)
        threads.append(
            Thread(
                process=process,
                number=number,
                tid=tid,
                name="",
                time_ns=np.zeros(0, np.int64),
                kind=np.zeros(0, np.uint8),
                site=np.zeros(0, np.int32),
                value=np.zeros(0, np.uint16),
            )
        )
    return replace(trace, threads=tuple(threads))


def cut(
    line: Timeline,
    calls: Calls,
    rows: Ints,
    parts: Ints,
    space: StateSpace,
    classes: Sequence[int],
    gaps: Intervals | None,
) -> Timeline:
    """The time line with the classes of a thread's calls; all its edges stay.

    Args:
        line: Of the thread.
        calls: Of the trace.
        rows: The thread's, in order of their begin.
        parts: Per row of `calls` the [operation, phase] it belongs to, for where the time line has none.
        space: Of the states.
        classes: Which to cut out; later ones go before earlier ones.
        gaps: When the thread's process did not record calls, if it ever did not; of a thread that makes any, these are
            not known then.
    """
    first, last = int(line.edge_ns[0]), int(line.edge_ns[-1])
    line = _with_gaps(line, gaps, space) if gaps is not None and len(rows) else line
    rows = rows[np.isin(calls.time_class[rows], classes)]
    begin, end = (np.clip(column[rows], first, last) for column in (calls.api.begin_ns, calls.api.end_ns))
    if not len(rows) or first == last:
        return line
    line = line.divided_at(np.concatenate([begin, end]))
    edges, state = line.edge_ns, line.state.astype(np.int64)
    idle = state == space.code(IDLE)
    latest = rows[np.maximum(np.searchsorted(begin, edges[:-1], side="right") - 1, 0)]
    operation = np.where(idle, parts[0, latest], space.operation_of(state))
    phase = np.where(idle, parts[1, latest], space.phase_of(state))
    for time_class in classes:
        mine = calls.time_class[rows] == time_class
        inside = _covered(edges, begin[mine], end[mine]) & (space.class_of(state) != _UNRECORDED)
        state = np.where(inside, space.codes(operation, time_class, phase), state)
    return replace(line, state=state.astype(np.int32))


def _with_gaps(line: Timeline, gaps: Intervals, space: StateSpace) -> Timeline:
    """Where calls were not recorded it is not known what the thread was at, if it ran."""
    line = line.divided_at(np.concatenate(gaps))
    hidden = _covered(line.edge_ns, *gaps.within(int(line.edge_ns[0]), int(line.edge_ns[-1])))
    hidden &= line.state != space.code(IDLE)
    return replace(line, state=np.where(hidden, space.code(UNKNOWN), line.state).astype(np.int32))


_UNRECORDED = CLASSES.index(UNKNOWN.time_class)


def _covered(edges: Ints, begin: Ints, end: Ints) -> NDArray[np.bool_]:
    """Per interval between edges, whether some interval from begin to end lies over it; begins and ends are edges, and
    of several edges at a time the last.
    """
    opened, closed = (
        np.bincount(np.searchsorted(edges, times, side="right") - 1, minlength=len(edges)) for times in (begin, end)
    )
    return np.cumsum(opened - closed)[:-1] > 0
