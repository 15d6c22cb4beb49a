"""GPU time belongs to whoever launched it, calls are classes of their threads' time, and bound means what it says."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from brute import thread_of, trace_of
from brute_gpu import (
    BACKWARD,
    SITES_OF_TRAINING,
    busy_by_walking,
    gpu_of,
    gpu_traces,
    launched_by,
    rows_of,
    totals_with_calls,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.scope.accelerator.readings import compare
from drivetrain.scope.intervals import Intervals, one_after_another
from drivetrain.scope.profile import Profile
from drivetrain.scope.trace import gpu
from drivetrain.scope.trace.events import BEGIN, END

ACT, STEP, RECV = 0, 1, 6


def launch(begin, end, correlation, **more):
    return {"begin_ns": begin, "end_ns": end, "kind": gpu.RUNTIME, "tid": 7, "correlation": correlation, **more}


def kernel(begin, end, correlation, **more):
    return {"begin_ns": begin, "end_ns": end, "kind": gpu.KERNEL, "correlation": correlation, **more}


def profile_of(threads, api=(), activity=(), readings=(), **more):
    trace = trace_of(threads, 0, 100, SITES_OF_TRAINING)
    return Profile(replace(trace, gpu=gpu_of(activity, api, readings), **more))


def of_operations(profile):
    return {(one.operation, one.time_class): (one.ns, one.num) for one in profile.usage.operations}


@pytest.mark.whole
@given(gpu_traces())
@settings(max_examples=30, deadline=None)
def test_every_trace_has_the_totals_that_walking_finds(trace):
    profile = Profile(trace)
    for thread, line in zip(profile.trace.threads, profile.timelines, strict=True):
        totals = line.totals(profile.space.size)
        found = {tuple(profile.space.state(code)): int(totals[code]) for code in np.flatnonzero(totals)}
        assert found == totals_with_calls(trace, thread.tid)
        assert sum(found.values()) == profile.wall_ns
    busy, bound = busy_by_walking(trace)
    assert (profile.usage.busy_ns, profile.usage.bound_ns) == (busy, bound)
    assert sum(profile.usage.meanwhile.values()) == busy
    assert sum(ns for one in profile.overlaps() for ns in [one.ns]) == profile.wall_ns


@pytest.mark.whole
@given(gpu_traces())
@settings(max_examples=30, deadline=None)
def test_every_activity_belongs_to_the_operation_that_walking_finds(trace):
    profile = Profile(trace)
    activity = rows_of(trace.gpu.activity)
    nodes = {row["correlation"] for row in activity if row["kind"] != gpu.GRAPH}
    expected = Counter()
    for row in activity:
        if row["kind"] == gpu.GRAPH and row["correlation"] in nodes:
            continue
        length = np.clip(row["end_ns"], 0, trace.end_ns) - np.clip(row["begin_ns"], 0, trace.end_ns)
        kind = "gpu_copy" if row["kind"] in (gpu.COPY, gpu.SET) else "gpu_kernel"
        expected[launched_by(trace, row)[0], kind] += int(length)
    assert {key: ns for key, (ns, _) in of_operations(profile).items()} == dict(expected)
    assert sum(expected.values()) == profile.usage.gpu_ns


@pytest.mark.whole
@given(gpu_traces(), st.randoms(use_true_random=False), st.integers(-50, 50))
@settings(max_examples=20, deadline=None)
def test_neither_the_order_of_records_nor_when_it_all_happened_matters(trace, random, shift):
    api, activity = (list(rows_of(columns)) for columns in (trace.gpu.api, trace.gpu.activity))
    for row in (*api, *activity):
        row["begin_ns"], row["end_ns"] = row["begin_ns"] + shift, row["end_ns"] + shift
    # Which of several calls began first has to stay: their own order decides where they begin together.
    random.shuffle(activity)
    threads = tuple(replace(thread, time_ns=thread.time_ns + shift) for thread in trace.threads)
    moved = replace(
        trace,
        begin_ns=shift,
        end_ns=trace.end_ns + shift,
        threads=threads,
        gpu=gpu_of(activity, api, names=trace.gpu.names),
    )
    before, after = Profile(trace), Profile(moved)
    assert after.usage == before.usage
    assert Counter(after.breakdown()) == Counter(before.breakdown())


@given(gpu_traces())
@settings(max_examples=20, deadline=None)
def test_rows_of_every_thread_and_stream_sum_to_the_wall_time(trace):
    profile = Profile(trace)
    sums = Counter()
    for row in profile.breakdown():
        sums[row.process, row.thread] += row.raw_ns
    assert set(sums.values()) <= {profile.wall_ns}
    assert any(thread.startswith("GPU ") for _, thread in sums) == bool(len(trace.gpu.activity))


def test_backward_passes_on_threads_of_autograd_belong_to_the_thread_that_waits_for_them():
    main = thread_of([(0, BEGIN, BACKWARD), (50, END, BACKWARD), (60, BEGIN, ACT), (90, END, ACT)])
    api = [launch(10, 12, 1, tid=1234), launch(70, 72, 2, tid=1234), launch(75, 76, 3)]
    activity = [kernel(20, 30, 1), kernel(80, 84, 2), kernel(85, 86, 3)]
    profile = profile_of([main], api, activity)
    assert of_operations(profile) == {
        ("backpropagation", "gpu_kernel"): (10, 1),
        ("unattributed", "gpu_kernel"): (4, 1),
        ("inference", "gpu_kernel"): (1, 1),
    }
    rows = {row.operation: row.raw_ns for row in profile.breakdown() if "1234" in row.thread and row.raw_ns}
    assert rows == {"other": 96, "backpropagation": 2, "unattributed": 2}


def test_what_the_recorder_said_of_a_call_goes_before_guessing():
    main = thread_of([(0, BEGIN, BACKWARD), (50, END, BACKWARD)])
    profile = profile_of([main], [launch(10, 12, 1, tid=1234, external=ACT + 1)], [kernel(20, 30, 1)])
    assert of_operations(profile) == {("inference", "gpu_kernel"): (10, 1)}


def test_all_nodes_of_a_graph_belong_to_its_launch_and_count_once():
    main = thread_of([(0, BEGIN, ACT), (90, END, ACT)])
    nodes = [kernel(20, 25, 1, graph=3), {**kernel(25, 30, 1, graph=3), "kind": gpu.COPY}]
    whole = {**kernel(20, 31, 1, graph=3), "kind": gpu.GRAPH}
    profile = profile_of([main], [launch(10, 12, 1)], [whole, *nodes])
    assert of_operations(profile) == {("inference", "gpu_kernel"): (5, 1), ("inference", "gpu_copy"): (5, 1)}
    assert profile.usage.busy_ns == 11
    alone = profile_of([main], [launch(10, 12, 1)], [whole])
    assert of_operations(alone) == {("inference", "gpu_kernel"): (11, 1)}


def test_a_gpu_is_the_bound_only_while_every_thread_of_every_process_rests():
    waits = [(0, BEGIN, RECV), (80, END, RECV)]
    one, two = thread_of(waits), thread_of([(0, BEGIN, RECV), (30, END, RECV), (99, BEGIN, STEP)], process=1, tid=8)
    profile = profile_of([one, two], [launch(5, 6, 1)], [kernel(10, 50, 1)])
    assert profile.usage.busy_ns == 40
    assert profile.usage.bound_ns == 20
    assert profile.usage.meanwhile == {("wait",): 20, ("python", "wait"): 20}


def test_calls_inside_calls_count_once_and_waiting_goes_before_calling():
    main = thread_of([(0, BEGIN, ACT), (100, END, ACT)])
    api = [
        launch(10, 20, 1),
        {**launch(12, 18, 1, name=2), "kind": gpu.DRIVER},
        launch(30, 50, 2, name=1),
        {**launch(35, 50, 2, detail=3), "kind": gpu.SYNC, "tid": 0},
        {**launch(60, 70, 0, detail=gpu.INSTRUMENTATION), "kind": gpu.OVERHEAD},
        {**launch(80, 90, 0, detail=gpu.LAZY_LOADING), "kind": gpu.OVERHEAD},
    ]
    profile = profile_of([main], api)
    totals = {row.time_class: row.raw_ns for row in profile.breakdown()}
    assert totals == {"python": 60, "accelerator_api": 10, "accelerator_sync": 20, "profiler": 10}
    assert not profile.usage.was_used


def test_what_recording_took_is_told_by_call():
    main = thread_of([(0, BEGIN, ACT), (100, END, ACT)])
    api = [launch(10, 20, 1), launch(30, 36, 2), launch(50, 60, 3, name=1)]
    own = {"kind": gpu.OVERHEAD, "detail": gpu.INSTRUMENTATION}
    api += [{**launch(12, 15, 1), **own}, {**launch(32, 33, 0), **own}]
    api += [{**launch(90, 94, 0), **own, "tid": 0}, {**launch(90, 91, 0), **own, "tid": 77}]  # CUPTI's own threads
    profile = profile_of([main], api)
    usage = profile.usage
    assert len(profile.timelines) == 1
    found = {one.name: (one.num, one.ns, one.overhead_ns, one.overhead_per_call_ns) for one in usage.calls}
    assert found == {"cudaLaunchKernel": (2, 16, 4, 2.0), "cudaStreamSynchronize": (1, 10, 0, 0.0)}
    assert (usage.recording.on_threads_ns, usage.recording.elsewhere_ns) == (4, 5)
    assert "not calibrated" in usage.recording.source


def test_readings_of_nvml_are_weighted_by_time_and_set_against_the_same_time():
    readings = gpu.GpuReading.of(
        time_ns=[40, 0, 10], device=[0, 0, 0], utilization=[90, 50, 30], memory_nbytes=[5, 9, 7]
    )
    busy = Intervals(np.array([5, 100]), np.array([15, 200]))
    found = compare(readings, 0, busy)
    assert found.utilization == pytest.approx((30 * 10 + 90 * 30) / 40 / 100)
    assert found.busy_share == 10 / 40
    assert found.inflation == pytest.approx(0.75 / 0.25)
    assert found.most_memory_nbytes == 9
    assert compare(readings, 1, busy) is None
    assert compare(readings.where(np.array([1])), 0, busy).inflation is None
    assert compare(readings, 0, Intervals(np.array([50]), np.array([60]))).inflation is None


def test_what_lies_outside_the_session_is_said_and_not_counted():
    profile = profile_of([thread_of([])], (), [kernel(-50, -10, 1), kernel(90, 200, 2)])
    assert profile.usage.busy_ns == 10
    assert "1 of 2 activities of GPUs lie outside" in profile.notes[0]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=12))
@settings(deadline=None)
def test_unions_cover_what_their_intervals_do(pairs):
    times = Intervals(*(np.array(column, np.int64) for column in ([a for a, _ in pairs], [a + n for a, n in pairs])))
    union = times.union()
    covered = {now for a, n in pairs for now in range(a, a + n)}
    assert covered == {now for a, b in zip(*map(np.ndarray.tolist, union), strict=True) for now in range(a, b)}
    assert (union.begin[1:] > union.end[:-1]).all()
    edges = np.array([-3, 0, 0, 7, 20, 60])
    assert union.between(edges).tolist() == [len(covered & set(range(a, b))) for a, b in pairwise(edges.tolist())]
    track = one_after_another(*times)
    assert track.sum_ns == len(covered)
    assert track.covered_ns == len(covered)
    if len(pairs):
        assert (track.end == np.maximum(times.end, track.begin)).all()


def test_what_recording_the_gpu_took_is_taken_out_and_who_waited_waits_less():
    """Main launches at 10 to 20, of which recording takes 12 to 15; another process waits for it until 60."""
    main = thread_of([(0, BEGIN, ACT), (60, END, ACT), (60, BEGIN, RECV), (90, END, RECV)])
    other = thread_of([(0, BEGIN, RECV), (60, END, RECV), (60, BEGIN, STEP), (90, END, STEP)], process=1, tid=8)
    overhead = {**launch(12, 15, 1), "kind": gpu.OVERHEAD, "detail": gpu.INSTRUMENTATION}
    trace = trace_of([main, other], 0, 90, SITES_OF_TRAINING)
    free = dict.fromkeys(("call", "annotation"), (0.0, 0.0))
    parents = [replace(process, alone_ns=free, parent=7) for process in trace.processes]
    records = gpu_of([kernel(30, 40, 1)], [launch(10, 20, 1), overhead])
    about = {"prior": dict.fromkeys(free, (1.0, 0.0))}
    profile = Profile(replace(trace, processes=tuple(parents), gpu=records, about=about))
    rows = {(row.process, row.time_class): row for row in profile.breakdown()}
    corrected = {key: row.corrected_ns for key, row in rows.items() if row.corrected_ns is not None}
    main_alone = {("7", "python"): 50, ("7", "accelerator_api"): 7, ("7", "profiler"): 0, ("7", "wait"): 30}
    assert corrected == pytest.approx({**main_alone, ("8", "wait"): 57, ("8", "simulator"): 30})
    assert profile.wall.likely_ns == pytest.approx(87)
    assert profile.overhead()["total_ns"] == pytest.approx(3)
    api = rows["7", "accelerator_api"]
    assert api.low_ns < api.corrected_ns - 1.5 < api.corrected_ns + 1.5 < api.high_ns


@given(gpu_traces())
@settings(max_examples=20, deadline=None)
def test_corrected_rows_of_every_thread_sum_to_the_corrected_wall_time(trace):
    profile = Profile(trace)
    sums = Counter()
    for row in profile.breakdown():
        if row.corrected_ns is not None:
            sums[row.thread] += row.corrected_ns
    assert len(sums) == len(profile.trace.threads)
    for total in sums.values():  # rows that come to less than a nanosecond are left out
        assert total == pytest.approx(profile.wall.likely_ns, abs=len(profile.space.operations) * 12)
