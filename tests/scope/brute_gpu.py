"""The oracle of GPU records: nanosecond by nanosecond, in plain Python; and random traces with GPUs."""

from collections import Counter
from dataclasses import replace

from brute import SITES, states_by_walking, trace_of, traces
from hypothesis import strategies as st

from drivetrain.scope.sites import Site
from drivetrain.scope.trace import gpu

NAMES = ("cudaLaunchKernel", "cudaStreamSynchronize", "cuLaunchKernel", "sgemm", "Memcpy HtoD")
SITES_OF_TRAINING = (*SITES, Site("torch backward", "backpropagation", "backend"))
BACKWARD = len(SITES)
OWN_NAMES = (0, 1)
LAUNCHED_NAMES = (3, 4)


def gpu_of(activity=(), api=(), readings=(), names=NAMES, notes=()):
    """From rows as dictionaries; columns that a row leaves out are 0. Without rows nothing happened."""

    def columns(kind, rows):
        names = dict.fromkeys(name for row in rows for name in row)
        return kind.of(**{name: [row.get(name, 0) for row in rows] for name in names})

    parts = {"activity": gpu.GpuActivity, "api": gpu.GpuApi, "readings": gpu.GpuReading}
    rows = {"activity": activity, "api": api, "readings": readings}
    return gpu.GpuTrace(**{name: columns(kind, rows[name]) for name, kind in parts.items()}, names=names, notes=notes)


def rows_of(columns):
    """Back to dictionaries."""
    names = columns.dtypes()
    return [
        dict(zip(names, row, strict=True)) for row in zip(*(getattr(columns, n).tolist() for n in names), strict=True)
    ]


@st.composite
def gpu_traces(draw, *, end_ns=120):
    """A trace of up to three threads, with calls (nested ones too), activities in any order, several devices."""
    trace = draw(traces(end_ns=end_ns, most=20))
    tids = [7, 8, 9][: len(trace.threads)]
    threads = tuple(replace(t, tid=tid, number=i) for i, (t, tid) in enumerate(zip(trace.threads, tids, strict=True)))
    trace = trace_of([replace(t, process=0) for t in threads], 0, end_ns, SITES_OF_TRAINING)
    api, activity = [], []
    correlations = st.integers(1, 8)
    for number in range(draw(st.integers(0, 8))):
        begin, length = draw(st.integers(0, end_ns)), draw(st.integers(0, 20))
        kind = draw(st.sampled_from([gpu.RUNTIME, gpu.RUNTIME, gpu.DRIVER, gpu.SYNC, gpu.OVERHEAD]))
        row = {"begin_ns": begin, "end_ns": min(begin + length, end_ns + 5), "kind": kind}
        row["tid"] = draw(st.sampled_from([*tids, 42, 0] if kind >= gpu.SYNC else [*tids, 42]))
        row["detail"] = draw(st.integers(0, 4))
        row["correlation"] = number + 1 if kind < gpu.SYNC else draw(correlations)
        row["name"] = draw(st.sampled_from(OWN_NAMES))
        row["external"] = draw(st.sampled_from([0, 0, 1, 3]))
        api.append(row)
    for _ in range(draw(st.integers(0, 8))):
        begin, length = draw(st.integers(-5, end_ns)), draw(st.integers(0, 30))
        kind = draw(st.sampled_from([gpu.KERNEL, gpu.KERNEL, gpu.COPY, gpu.SET, gpu.GRAPH]))
        row = {"begin_ns": begin, "end_ns": begin + length, "kind": kind, "correlation": draw(correlations)}
        row |= {"device": draw(st.integers(0, 1)), "stream": draw(st.sampled_from([7, 13]))}
        row |= {"nbytes": 4 * (kind in (gpu.COPY, gpu.SET)), "name": draw(st.sampled_from(LAUNCHED_NAMES))}
        activity.append(row)
    return replace(trace, gpu=gpu_of(activity, api))


def calls_of_thread(trace, tid):
    """[(from, to, class, row)] of what takes a thread's time."""
    api = rows_of(trace.gpu.api)
    found = []
    for row in api:
        if thread_of_call(api, row) != tid or tid == 0:
            continue
        is_call = row["kind"] in (gpu.RUNTIME, gpu.DRIVER)
        if row["kind"] == gpu.OVERHEAD and row["detail"] in gpu.OWN_OVERHEAD:
            found.append((row, "profiler"))
        elif (is_call and "Synchronize" in trace.gpu.names[row["name"]]) or (
            row["kind"] == gpu.SYNC and row["detail"] != gpu.STREAM_WAIT_EVENT
        ):
            found.append((row, "accelerator_sync"))
        elif is_call:
            found.append((row, "accelerator_api"))
    return found


def thread_of_call(api, row):
    """Its own, or that of the first call with its correlation."""
    if row["tid"] or not row["correlation"]:
        return row["tid"]
    callers = [r for r in api if r["kind"] < gpu.SYNC and r["tid"] and r["correlation"] == row["correlation"]]
    return min(callers, key=lambda r: r["begin_ns"], default=row)["tid"]


def state_at(pieces, now):
    """The state of a thread at a time; outside the session that at its edges."""
    holds = [state for first, last, state in pieces if first <= now < last]
    return holds[-1] if holds else pieces[-1][2] if now > 0 else pieces[0][2]


def operation_of_call(trace, row):
    """(operation, phase) that a call belongs to."""
    lines = {thread.tid: states_by_walking(trace, thread) for thread in trace.threads}
    tid, now = thread_of_call(rows_of(trace.gpu.api), row), row["begin_ns"]
    if tid == 0:
        return "unattributed", ""
    own = state_at(lines[tid], now) if tid in lines else ("other", "idle", "")
    runs = own[1] != "idle"
    if runs and any(state[0] != "other" for first, last, state in lines[tid]):
        return own[0], own[2]
    if row["external"] and (operation := trace.sites[row["external"] - 1].operation):
        return operation, ""
    for pieces in lines.values():
        state = state_at(pieces, now)
        if state[0] == "backpropagation" and state[1] in ("backend", "wait", "accelerator_sync"):
            return state[0], state[2]
    return (own[0], own[2]) if runs else ("unattributed", "")


def totals_with_calls(trace, tid):
    """(operation, class, phase) -> ns of a thread, calls cut out."""
    threads = [t for t in trace.threads if t.tid == tid]
    pieces = (
        states_by_walking(trace, threads[0]) if threads else [(trace.begin_ns, trace.end_ns, ("other", "idle", ""))]
    )
    calls = calls_of_thread(trace, tid)
    totals = Counter()
    for now in range(trace.begin_ns, trace.end_ns):
        totals[state_with_calls(trace, pieces, calls, now)] += 1
    return dict(totals)


def state_with_calls(trace, pieces, calls, now):
    """The state of a thread at a time, calls cut out."""
    operation, time_class, phase = next(state for first, last, state in pieces if first <= now < last)
    around = [name for row, name in calls if row["begin_ns"] <= now < row["end_ns"]]
    if not around:
        return operation, time_class, phase
    if time_class == "idle":
        begun = [row for row, _ in calls if max(row["begin_ns"], trace.begin_ns) <= now]
        begun.sort(key=lambda row: row["begin_ns"])  # of those that begin together the last
        latest = begun[-1]
        operation, phase = operation_of_call(trace, latest)
    for name in ("profiler", "accelerator_sync", "accelerator_api"):
        if name in around:
            return operation, name, phase
    raise AssertionError(around)


def launched_by(trace, row):
    """(operation, phase) of an activity."""
    calls = [r for r in rows_of(trace.gpu.api) if r["kind"] < gpu.SYNC and r["correlation"] == row["correlation"]]
    return operation_of_call(trace, min(calls, key=lambda r: r["begin_ns"])) if calls else ("unattributed", "")


def busy_by_walking(trace):
    """(busy ns, ns of it while all threads rest)."""
    api = rows_of(trace.gpu.api)
    callers = {thread_of_call(api, row) for row in api if row["kind"] != gpu.OVERHEAD} - {0}
    tids = {t.tid for t in trace.threads} | callers
    lines = {}
    for tid in tids:
        threads = [t for t in trace.threads if t.tid == tid]
        idle = [(trace.begin_ns, trace.end_ns, ("other", "idle", ""))]
        lines[tid] = (states_by_walking(trace, threads[0]) if threads else idle, calls_of_thread(trace, tid))
    activity = rows_of(trace.gpu.activity)
    busy = bound = 0
    for now in range(trace.begin_ns, trace.end_ns):
        if any(row["begin_ns"] <= now < row["end_ns"] for row in activity):
            busy += 1
            classes = {state_with_calls(trace, pieces, calls, now)[1] for pieces, calls in lines.values()}
            bound += classes <= {"wait", "accelerator_sync", "idle"}
    return busy, bound
