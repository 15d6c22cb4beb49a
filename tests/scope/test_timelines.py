"""Time lines and overlaps equal those found by walking, and keep every nanosecond."""

import sys
import time
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
from brute import overlaps_by_walking, thread_of, threads, totals_by_walking, trace_of, traces
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.core.errors import InvalidInput
from drivetrain.scope import overlap, reference
from drivetrain.scope.profile import Profile
from drivetrain.scope.sites import CLASSES, FORWARD, Site
from drivetrain.scope.states import StateSpace
from drivetrain.scope.timeline import innermost, timeline
from drivetrain.scope.trace.events import BEGIN, END, LANE, THREAD_END


def totals(trace, thread):
    space = StateSpace(trace.sites)
    found = timeline(trace, thread, space).totals(space.size)
    return {tuple(space.state(code)): int(found[code]) for code in np.flatnonzero(found).tolist()}


@pytest.mark.whole
@given(st.data(), st.sampled_from([(True, False), (False, False), (False, True), (True, True)]))
@settings(max_examples=150, deadline=None)
def test_the_totals_of_a_thread_equal_those_found_by_walking(data, how):
    in_order, lanes = how
    trace = trace_of([data.draw(threads(5, 300, in_order=in_order, lanes=lanes))], 0, 305)
    assert totals(trace, trace.threads[0]) == totals_by_walking(trace, trace.threads[0])


def test_what_stands_above_a_site_that_is_left_out_of_order_is_no_longer_in_it():
    act, matmul, warm_up = 0, 2, 3  # a generator of the first, in which a phase and a call begin that outlast it
    events = [(10, BEGIN, act), (20, BEGIN, warm_up), (30, BEGIN, matmul), (40, END, act), (60, END, matmul)]
    trace = trace_of([thread_of([*events, (90, END, warm_up), (95, THREAD_END, 0)])], 0, 100)
    assert totals(trace, trace.threads[0]) == {
        ("other", "idle", ""): 15,
        ("inference", "python", ""): 10,
        ("inference", "python", "warm-up"): 10,
        ("inference", "backend", "warm-up"): 10,
        ("other", "backend", "warm-up"): 20,
        ("other", "python", "warm-up"): 30,
        ("other", "python", ""): 5,
    }


def test_a_task_that_goes_on_elsewhere_is_in_what_is_around_its_loop_now():
    act, simulate, matmul = 0, 1, 2
    events = [(10, BEGIN, act), (20, LANE, 1), (30, BEGIN, matmul), (40, LANE, 0), (50, END, act)]
    events += [(60, BEGIN, simulate), (70, LANE, 1), (85, END, matmul), (90, LANE, 0), (95, END, simulate)]
    trace = trace_of([thread_of([*events, (100, THREAD_END, 0)])], 0, 100)
    assert totals(trace, trace.threads[0]) == {
        ("other", "idle", ""): 10,
        ("inference", "python", ""): 30,
        ("inference", "backend", ""): 10,
        ("other", "python", ""): 15,
        ("simulation", "simulator", ""): 20,
        ("simulation", "backend", ""): 15,
    }


@pytest.mark.release
@given(traces(in_order=False, lanes=True))
@settings(max_examples=100, deadline=None)
def test_the_times_of_every_thread_sum_to_the_wall_time(trace):
    rows = Profile(trace).breakdown()
    for thread in trace.threads:
        own = [row.raw_ns for row in rows if row.process == str(trace.processes[thread.process].pid)]
        assert sum(own) == len(trace.threads) * (trace.end_ns - trace.begin_ns)


@given(threads(0, 1000))
@settings(max_examples=100, deadline=None)
def test_the_vectorised_stack_equals_the_reference(thread):
    for fast, slow in zip(innermost(thread), reference.innermost(thread.kind, thread.site), strict=True):
        np.testing.assert_array_equal(fast, slow)


@pytest.mark.whole
@given(traces(most=12, end_ns=60))
@settings(max_examples=60, deadline=None)
def test_overlaps_equal_those_found_nanosecond_by_nanosecond(trace):
    profile = Profile(trace)
    found = {(frozenset(o.classes), frozenset(o.operations)): o.ns for o in profile.overlaps() if o.ns}
    assert found == overlaps_by_walking(trace)
    assert sum(found.values()) == profile.wall_ns


@pytest.mark.parametrize("num_operations", [3, 40, 55, 200])
def test_overlaps_are_found_whatever_the_number_of_operations(num_operations):
    sites = tuple(Site(f"s{i}", f"operation {i}", "python") for i in range(2 * num_operations))  # half of them unused
    rng = np.random.default_rng(num_operations)

    def thread(number):
        times = np.sort(rng.choice(np.arange(1, 10_000), 2 * num_operations, replace=False)).tolist()
        order = rng.permutation(num_operations).repeat(2).tolist()
        return thread_of(list(zip(times, [BEGIN, END] * num_operations, order, strict=True)), number=number)

    trace = trace_of([thread(0), thread(1)], 0, 10_000, sites)
    found = {(frozenset(o.classes), frozenset(o.operations)): o.ns for o in Profile(trace).overlaps() if o.ns}
    assert found == overlaps_by_walking(trace)


def test_the_operations_of_a_mask_are_looked_up_and_not_searched_among_thousands():
    class Many:
        __iter__ = None

        def __getitem__(self, index):
            return f"operation {index}"

    mask = 1 << CLASSES.index("python") | (1 << 7 | 1 << 100_000) << len(CLASSES)
    found = overlap.names(mask, SimpleNamespace(operations=Many()))
    assert found == (("python",), ("operation 7", "operation 100000"))


def test_more_states_than_codes_are_refused():
    names = range(14_000)
    sites = [Site(f"s{i}", f"episode {i}", "python", f"episode {i}") for i in names]
    with pytest.raises(InvalidInput, match=r"got 14,0\d\d operations and 14,001 phases; number neither by a counter"):
        StateSpace(tuple(sites))


def test_a_report_is_of_the_states_that_occur_however_many_there_could_be():
    names, phases = 40_000, 50  # beyond 16 bits, and 24 million states
    sites = (
        *(Site(f"s{i}", f"operation {i}", "python") for i in range(names)),
        *(Site(f"p{i}", phase=f"epoch {i}") for i in range(phases)),
    )
    events = [(10, BEGIN, names + 7), (20, BEGIN, names - 1), (50, END, names - 1), (70, END, names + 7)]
    trace = replace(
        trace_of([thread_of([*events, (90, THREAD_END, 0)])], 0, 100, sites),
        about={"prior": {"call": (1.0, 0.1), "annotation": (1.0, 0.1)}},
    )
    profile = Profile(trace)
    found = {(row.operation, row.time_class, row.phase): row.raw_ns for row in profile.breakdown()}
    assert found == {
        ("other", "python", "epoch 7"): 30,
        ("operation 39999", "python", "epoch 7"): 30,
        ("other", "python", ""): 20,
        ("other", "idle", ""): 20,
    }
    corrected = profile.correction.of_thread(0)
    assert corrected is not None
    assert len(corrected) == len(found)
    assert {(o.classes, o.operations): o.ns for o in profile.overlaps()} == {
        (("python",), ("other",)): 50,
        (("python",), ("operation 39999",)): 30,
        ((), ()): 20,
    }


@pytest.mark.release
@given(traces(), st.integers(0, 2**60), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_results_do_not_depend_on_the_order_of_threads_or_on_where_time_begins(trace, shift, random):
    before = Profile(trace)
    moved = [replace(thread, time_ns=thread.time_ns + shift) for thread in trace.threads]
    random.shuffle(moved)
    after = Profile(replace(trace, threads=tuple(moved), begin_ns=trace.begin_ns + shift, end_ns=trace.end_ns + shift))
    for one, other in ((before.overlaps(), after.overlaps()), (before.breakdown(), after.breakdown())):
        assert comparable(one) == comparable(other)


def comparable(found):
    """Sorted, corrected times rounded: sums of other orders differ in the last bits."""
    rounded = []
    for one in found:
        fields = one._asdict() if hasattr(one, "_asdict") else asdict(one)
        raw = fields.get("raw_ns", fields.get("ns"))
        numbers = {name: round(value, 3) for name, value in fields.items() if isinstance(value, float)}
        if raw:
            rounded.append(repr({**fields, **{name: value + 0.0 for name, value in numbers.items()}}))
    return sorted(rounded)


def test_a_forward_pass_belongs_to_an_update_if_a_backward_pass_comes_before_the_next_simulation():
    sites = (
        Site("forward", FORWARD, "backend"),
        Site("Env.step", "simulation", "simulator"),
        Site("backward", "backpropagation", "backend"),
    )
    order = [0, 1, 0, 0, 2, 0, 1, 0]
    events = [(10 * i + 5 * half, kind, site) for i, site in enumerate(order) for half, kind in enumerate((BEGIN, END))]
    trace = trace_of([thread_of(events)], 0, 80, sites)
    assert totals(trace, trace.threads[0]) == {
        ("inference", "backend", ""): 15,  # the first, the one after the update, the last
        ("simulation", "simulator", ""): 10,
        ("backpropagation", "backend", ""): 15,
        ("other", "python", ""): 35,
        ("other", "idle", ""): 5,
    }


@pytest.mark.slow
def test_five_million_events_keep_every_nanosecond():
    num = 1_250_000
    rng = np.random.default_rng(0)
    kind = np.tile(np.array([BEGIN, BEGIN, END, END], np.uint8), num)
    inner, outer = rng.integers(0, 7, num), rng.integers(0, 7, num)
    thread = replace(
        thread_of([]),
        time_ns=np.cumsum(rng.integers(1, 2000, 4 * num)),
        kind=kind,
        site=np.stack([outer, inner, inner, outer], 1).ravel().astype(np.int32),
        value=np.zeros(4 * num, np.uint16),
    )
    profile = Profile(trace_of([thread], 0, int(thread.time_ns[-1])))
    start = time.process_time()
    assert sum(row.raw_ns for row in profile.breakdown()) == profile.wall_ns
    assert sum(overlap.ns for overlap in profile.overlaps()) == profile.wall_ns
    sys.stdout.write(f"{time.process_time() - start:.2f} s of CPU time for {4 * num} events\n")
