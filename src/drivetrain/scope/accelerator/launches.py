"""For which operation each activity of a device was launched.

    activity --correlation--> call --thread, begin--> state of the thread's time line --> operation, phase

Threads that are in no operation ever (autograd's device threads, a library's) call for somebody else. In order: what
the recorder said with the call (its external number), also where a thread is muted; a thread of the same process that
is in backpropagation and waits in native code meanwhile; what the thread is in (`other`), if it is recorded at all;
nobody that is known. All nodes of a CUDA graph have the correlation of its launch, and so its operation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.accelerator.calls import Calls, first_by_correlation
from drivetrain.scope.intervals import Ints
from drivetrain.scope.sites import CLASSES, FORWARD, UNRECORDED, Site
from drivetrain.scope.states import BASE, IDLE, UNKNOWN, StateSpace
from drivetrain.scope.timeline import Timeline
from drivetrain.scope.trace.events import Trace
from drivetrain.scope.trace.gpu import DRIVER, GRAPH, KERNEL, RUNTIME, GpuActivity

UNATTRIBUTED = Site("launched by nobody that is known", "unattributed")
"""Never entered: the operation of what no call, or no thread's operation, was found for."""
GAP = Site("what GPUs did was not recorded", "unrecorded on GPUs", "unrecorded")
"""Never entered: what devices are in where nobody knows."""
MORE_SITES = (UNRECORDED, UNATTRIBUTED, GAP)
"""What a space of states has to have where a GPU was used, beside the program's own sites."""
WAITS_NATIVELY = tuple(CLASSES.index(name) for name in ("backend", "wait", "accelerator_sync"))


@dataclass(frozen=True, eq=False)
class Launches:
    """Who launched what."""

    parts: Ints
    """[2, calls]: index of the operation and of the phase that each call belongs to."""
    call: Ints
    """Per activity the row of the call that launched it; -1: none was recorded."""
    state: NDArray[np.int32]
    """Per activity its operation, class (`gpu_kernel`, `gpu_copy`) and phase as a state's code."""


def launches_of(trace: Trace, lines: Sequence[Timeline], calls: Calls, space: StateSpace) -> Launches:
    """All launches of a trace whose `gpu` is there.

    Args:
        trace: What was recorded.
        lines: Of its threads, calls not cut out.
        calls: Its calls.
        space: Of the states; has MORE_SITES among its sites.
    """
    assert trace.gpu is not None
    activity, api = trace.gpu.activity, calls.api
    parts = _parts_of_calls(trace, lines, calls, space)
    callers = np.flatnonzero((api.kind == RUNTIME) | (api.kind == DRIVER))
    call = first_by_correlation(api, callers, activity.process, activity.correlation)
    unknown = np.array([[space.operations.index(UNATTRIBUTED.operation)], [0]])
    operation, phase = np.concatenate([parts, unknown], axis=1)[:, call]  # -1 is the last
    is_kernel = (activity.kind == KERNEL) | (activity.kind == GRAPH)
    time_class = np.where(is_kernel, CLASSES.index("gpu_kernel"), CLASSES.index("gpu_copy"))
    return Launches(parts, call, space.codes(operation, time_class, phase).astype(np.int32))


def counted(activity: GpuActivity) -> NDArray[np.bool_]:
    """Activities whose times may be added: a graph as a whole is left out where its nodes were recorded too."""
    key = activity.process.astype(np.int64) << 32 | activity.correlation.astype(np.int64)
    is_graph = activity.kind == GRAPH
    return ~(is_graph & np.isin(key, key[~is_graph]))


def _parts_of_calls(trace: Trace, lines: Sequence[Timeline], calls: Calls, space: StateSpace) -> Ints:
    """[2, calls]."""
    state = np.full(len(calls.api), -1, np.int64)
    for (process, tid), rows in calls.of_thread.items():
        at = calls.api.begin_ns[rows]
        of_process = [(t, line) for t, line in zip(trace.threads, lines, strict=True) if t.process == process]
        own, is_named = _own([line for t, line in of_process if t.tid == tid], at, space)
        found = np.where(is_named, own, _by_external(calls.api.external[rows], space))
        is_muted = own == space.code(UNKNOWN)
        if (asked := (found < 0) & ~is_muted).any():
            others = _waiting_in_backpropagation([line for _, line in of_process], at, space)
            found = np.where(asked, others, found)
        state[rows] = np.where(found < 0, own, found)
    unknown = space.operations.index(UNATTRIBUTED.operation)
    operation = np.where(state < 0, unknown, space.operation_of(state))
    return np.stack([operation, np.where(state < 0, 0, space.phase_of(state))])


def _own(lines: Sequence[Timeline], at: Ints, space: StateSpace) -> tuple[Ints, NDArray[np.bool_]]:
    """What a thread itself was in, -1 where it did not run; and whether that says for what it called.

    Several time lines are threads that had the same number one after the other.
    """
    found, is_named = np.full(len(at), -1, np.int64), np.zeros(len(at), np.bool_)
    for line in lines:
        now = _state_at(line, at)
        runs = (found < 0) & (now != space.code(IDLE))
        found = np.where(runs, now, found)
        is_named |= runs & (now != space.code(UNKNOWN)) & _has_operations(line, space)
    return found, is_named


def _has_operations(line: Timeline, space: StateSpace) -> bool:
    """Whether the thread is ever in an operation."""
    none = [space.operations.index(state.operation) for state in (BASE, UNKNOWN)]
    return bool((~np.isin(space.operation_of(line.state), none)).any())


def _state_at(line: Timeline, at: Ints) -> Ints:
    """The state at each time; before and after the session that at its edges."""
    place = np.searchsorted(line.edge_ns, at, side="right") - 1
    return line.state[np.clip(place, 0, len(line.state) - 1)].astype(np.int64)


def _by_external(external: NDArray[np.uint64], space: StateSpace) -> Ints:
    """The state that the recorder said; -1 where it said none, or a site that names no operation."""
    names = [site.operation if site.operation != FORWARD else "" for site in space.sites]
    operations = np.array([space.operations.index(name) if name else -1 for name in names], np.int64)
    site = external.astype(np.int64) - 1
    is_known = (site >= 0) & (site < len(operations))
    operation = np.where(is_known, operations[np.where(is_known, site, 0)], -1)
    return np.where(operation < 0, -1, space.codes(operation, 0, 0))


def _waiting_in_backpropagation(lines: Sequence[Timeline], at: Ints, space: StateSpace) -> Ints:
    """The state of the first of the threads that is in backpropagation and waits in native code; -1 for none."""
    found = np.full(len(at), -1, np.int64)
    backpropagation = space.operations.index("backpropagation")
    for line in lines:
        now = _state_at(line, at)
        is_in = space.operation_of(now) == backpropagation
        found = np.where((found < 0) & is_in & np.isin(space.class_of(now), WAITS_NATIVELY), now, found)
    return found
