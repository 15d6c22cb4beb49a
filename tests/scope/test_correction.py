"""What was planted is recovered: costs within their errors, times within their intervals, waits moved with them."""

from collections import Counter
from dataclasses import astuple, replace

import numpy as np
import pytest
from brute import thread_of, trace_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from planted import SITES, STEP_SITE, UPDATE_SITE, WAIT_SITE, Writer, gather, program_in_blocks, trace_of_planted

from drivetrain.scope.calibration import regression
from drivetrain.scope.calibration.charges import Charges
from drivetrain.scope.profile import Profile
from drivetrain.scope.report.shares import in_words
from drivetrain.scope.trace.blocks import blocks_of
from drivetrain.scope.trace.events import BEGIN, END, STEP, THREAD_END


def estimates(seeds, **how):
    """The cost of a call in each program, with its standard error."""
    found = [regression.estimate(blocks_of(program_in_blocks(seed, **how)[0].threads[0]))[0] for seed in seeds]
    assert None not in found
    return found


@pytest.mark.release
@pytest.mark.parametrize("tails", [0.0, 0.05])
def test_planted_costs_are_recovered_within_their_errors(tails):
    found = estimates(range(60), tails=tails)
    inside = [abs(one.ns - 400) <= 1.96 * one.se_ns for one in found]
    assert sum(inside) >= 0.88 * 60  # 95% of 60 less two standard deviations
    assert abs(np.mean([one.ns for one in found]) - 400) < 30
    assert np.median([one.se_ns for one in found]) < 100


@pytest.mark.whole
def test_a_cost_of_nothing_is_found_to_be_nothing_and_is_not_clamped():
    found = estimates(range(40), inside_ns=0.0, around_ns=0.0)
    assert any(one.ns < 0 for one in found)
    assert any(one.ns > 0 for one in found)
    assert sum(abs(one.ns) <= 1.96 * one.se_ns for one in found) >= 35


def test_too_few_blocks_identify_nothing():
    trace, _ = program_in_blocks(0, rounds=regression.LEAST_MUTED - 1)
    profile = Profile(trace)
    assert profile.correction.costs == [[None, None]]
    assert profile.wall is None
    assert all(row.corrected_ns is None for row in profile.breakdown())
    assert "not identifiable" in in_words(profile)[-1]
    ledger = {entry["instrument"]: entry["source"] for entry in profile.overhead()["costs"]}
    assert ledger["call"] == "not identifiable"
    known, _ = program_in_blocks(0)
    of_known, of_unknown = (Profile(one).overhead()["costs"][0] for one in (known, trace))
    assert list(of_unknown) == list(of_known)
    assert of_unknown["disabled_ns"] is of_unknown["this_run"] is None


@pytest.mark.release
def test_corrected_times_are_those_alone_within_their_intervals():
    inside, biases = [], []
    for seed in range(30):
        trace, alone = program_in_blocks(seed)
        rows = {(row.operation, row.time_class): row for row in Profile(trace).breakdown()}
        busy = {key: row for key, row in rows.items() if key in alone and key[0] != "unrecorded"}
        assert len(busy) == 3
        truth = sum(alone[key] for key in busy)
        likely, low, high = (sum(getattr(r, n) for r in busy.values()) for n in ("corrected_ns", "low_ns", "high_ns"))
        assert sum(row.raw_ns for row in busy.values()) > 1.02 * truth
        inside.append(low <= truth <= high)
        biases.append(likely / truth - 1)
    assert sum(inside) >= 26
    assert abs(np.median(biases)) < 0.005
    assert max(map(abs, biases)) < 0.03


@pytest.mark.whole
@pytest.mark.parametrize(("tails", "rounds"), [(0.0, 30), (0.05, 30), (0.05, 4)])
def test_the_truth_is_inside_the_interval_also_where_recording_slows_more_than_its_spans(tails, rounds):
    rng = np.random.default_rng(11)
    inside, widths = 0, []
    for seed in range(30):
        unseen = 0.015 * rng.standard_normal()
        trace, alone = program_in_blocks(seed, tails=tails, rounds=rounds, unseen=unseen)
        # Four rounds identify nothing: there, what was expected of a span is right within its error.
        expected = {"call": (400 / (1.3 + 0.21 * rng.standard_normal()), 0.0)}
        trace = replace(trace, processes=(replace(trace.processes[0], alone_ns=expected),))
        truth = sum(alone.values())
        wall = Profile(trace).wall
        inside += wall.low_ns <= truth <= wall.high_ns
        widths.append((wall.high_ns - wall.low_ns) / 2 / truth)
    assert inside >= 27
    assert np.median(widths) < 0.05


@given(st.integers(0, 2**31), st.integers(0, 2**55))
@settings(max_examples=15, deadline=None)
def test_corrections_do_not_depend_on_where_time_begins(seed, shift):
    trace, _ = program_in_blocks(seed, rounds=10)
    thread = replace(trace.threads[0], time_ns=trace.threads[0].time_ns + shift)
    moved = replace(trace, threads=(thread,), begin_ns=trace.begin_ns + shift, end_ns=trace.end_ns + shift)
    assert Profile(moved).breakdown() == Profile(trace).breakdown()
    assert Profile(moved).overhead() == Profile(trace).overhead()


@given(st.integers(0, 2**31))
@example(2**31 - 1)  # its intervals differ in the last bit
@settings(max_examples=10, deadline=None)
def test_corrections_do_not_depend_on_the_order_of_threads(seed):
    trace, _ = gather(seed, inside_ns=200.0, around_ns=300.0, rounds=6)
    turned = replace(trace, threads=tuple(reversed(trace.threads)))
    there, back = (sorted(map(astuple, Profile(t).breakdown()), key=repr) for t in (trace, turned))
    assert [row[:6] for row in there] == [row[:6] for row in back]
    for row, same in zip(there, back, strict=True):  # sums of floats in another order are rounded otherwise
        assert row[6:] == pytest.approx(same[6:], rel=1e-12, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_waits_shrink_as_much_as_those_waited_for(seed):
    trace, alone = gather(seed, inside_ns=300.0, around_ns=500.0)
    profile = Profile(trace)
    wall_alone = max(w.now for w in alone)
    assert profile.wall_ns > 1.05 * wall_alone
    assert profile.wall.likely_ns == pytest.approx(wall_alone, rel=5e-3)
    rows = {(row.process, row.operation, row.time_class): row for row in profile.breakdown()}
    for number, w in enumerate(alone):
        for (operation, time_class), ns in w.alone.items():
            row = rows[str(7 + number), operation, time_class]
            assert row.low_ns - 0.01 * wall_alone <= ns <= row.high_ns + 0.01 * wall_alone
    main = rows["7", "other", "wait"]
    assert main.corrected_ns == pytest.approx(alone[0].alone["other", "wait"], rel=0.02)


def test_each_thread_is_gone_through_once_for_all_who_may_have_waited_for_it(monkeypatch):
    """With a look for every pair of threads, a program of 150 threads that wait for each other took half a minute."""
    looks, before = Counter(), Charges.before
    monkeypatch.setattr(Charges, "before", lambda self, places: (looks.update([id(self)]), before(self, places))[1])
    trace, _ = gather(0, inside_ns=300.0, around_ns=500.0, rounds=6)
    Profile(trace).breakdown()
    assert len(looks) == len(trace.threads) > 3
    assert max(looks.values()) <= 3, "for the waits, their own and others'; for where it ends; for where it begins"


def test_who_ends_a_wait_is_asked_of_then_and_not_of_waits_that_it_left_since():
    """A parent waits, and within that for a child with many spans; another sleeps until the parent goes on."""
    ms, child, wait, select = 1_000_000, STEP_SITE, WAIT_SITE, len(SITES)
    parent = [(1 * ms, BEGIN, child), (2 * ms, END, child), (10 * ms, BEGIN, wait), (10 * ms + 1_000, BEGIN, select)]
    parent += [(411 * ms + 70_000, END, select), (600 * ms + 50_000, END, wait), (601 * ms, THREAD_END, 0)]
    sleeping = [(3 * ms, BEGIN, child), (4 * ms, END, child), (5 * ms, BEGIN, wait), (600 * ms, END, wait)]
    sleeping += [(600 * ms + 20_000, THREAD_END, 0)]
    busy = [(11 * ms + i * 100_000 + at, kind, child) for i in range(4_000) for at, kind in ((0, BEGIN), (50_000, END))]
    busy += [(411 * ms + 60_000, THREAD_END, 0)]
    costs = dict.fromkeys(("call", "annotation"), (2000.0, 0.0))
    threads = [
        thread_of(events, process=number, tid=7 + number) for number, events in enumerate((parent, sleeping, busy))
    ]
    prior = dict.fromkeys(costs, (1.0, 0.0))
    trace = trace_of_planted(threads, 601 * ms, parents=(1, 7, 7), alone_ns=costs, prior=prior)
    profile = Profile(replace(trace, sites=(*trace.sites, replace(trace.sites[wait], name="select"))))
    (slept,) = [row for row in profile.breakdown() if (row.process, row.time_class) == ("8", "wait")]
    assert slept.raw_ns == 595 * ms
    assert slept.corrected_ns == pytest.approx(595 * ms, rel=1e-4)
    assert profile.wall.likely_ns == pytest.approx(601 * ms, rel=1e-4)


@given(st.integers(0, 2**31))
@settings(max_examples=10, deadline=None)
def test_corrected_rows_of_a_thread_and_overlaps_sum_to_the_corrected_wall_time(seed):
    trace, _ = gather(seed, inside_ns=300.0, around_ns=500.0, rounds=6)
    profile = Profile(trace)
    sums = {}
    for row in profile.breakdown():
        sums[row.process] = sums.get(row.process, 0.0) + row.corrected_ns
    assert list(sums.values()) == pytest.approx([profile.wall.likely_ns] * len(trace.threads))
    assert sum(one.corrected_ns for one in profile.overlaps()) == pytest.approx(profile.wall.likely_ns)


def test_a_wait_that_nobody_recorded_can_have_ended_keeps_its_length():
    w = Writer(inside_ns=100.0, around_ns=100.0)
    w.span(UPDATE_SITE, 5000, "busy")
    w.events += [(int(w.now), BEGIN, WAIT_SITE), (int(w.now) + 7000, END, WAIT_SITE)]
    w.values += [1, 1]
    alone, exact = {"call": (200.0, 0.0), "annotation": (0.0, 0.0)}, {"call": (1.0, 0.0), "annotation": (1.0, 0.0)}
    trace = trace_of_planted([w.thread()], 20_000, alone_ns=alone, prior=exact)
    rows = {row.time_class: row for row in Profile(trace).breakdown()}
    assert rows["wait"].corrected_ns == rows["wait"].raw_ns == 7000
    assert rows["backend"].corrected_ns == 5000


def test_where_recording_changes_what_a_program_does_nothing_is_corrected():
    trace, _ = program_in_blocks(0, rounds=20)
    thread = trace.threads[0]
    blocks = blocks_of(thread)
    site = thread.site.copy()
    at = np.flatnonzero((thread.kind == 7) & (thread.value == 10))  # optimizer steps of each block
    site[at] = np.where(blocks.mask == 0, 5, 9)
    profile = Profile(replace(trace, threads=(replace(thread, site=site),)))
    assert [change for change in profile.correction.changes if "optimizer steps are 5" in change]
    assert profile.wall is None
    assert all(row.corrected_ns is None for row in profile.breakdown())
    assert any("not corrected" in note for note in profile.notes)
    assert "it changed what the program does" in in_words(profile)[-1]


def test_a_muted_stretch_is_neither_lost_nor_spread():
    trace, alone = program_in_blocks(3)
    profile = Profile(trace)
    rows = {(row.operation, row.time_class): row for row in profile.breakdown()}
    assert rows["unrecorded", "unrecorded"].raw_ns == pytest.approx(alone["unrecorded", "unrecorded"], rel=1e-3)
    assert sum(row.raw_ns for row in rows.values()) == profile.wall_ns
    assert profile.num_steps() == 30 * 5 * 20 + 1
    assert profile.num_recorded_steps() == 30 * 4 * 20 + 1


def test_what_was_expected_fills_in_where_a_run_says_little_and_gives_way_where_it_says_much():
    wide = {"call": (1.0, 10.0)}
    trace, _ = program_in_blocks(1)
    costs = {}
    for name, alone_ns, prior in (
        ("wide", 300.0, wide),
        ("agreeing", 400.0, {"call": (1.0, 0.01)}),
        ("wrong", 4000.0, {"call": (1.0, 0.01)}),
    ):
        process = replace(trace.processes[0], alone_ns={"call": (alone_ns, 0.0)})
        about = {"prior": prior}
        costs[name] = Profile(replace(trace, processes=(process,), about=about)).correction.costs[0][0]
    own = costs["wide"].estimate
    assert costs["wide"].recorded_ns == pytest.approx(own.ns, rel=0.01)
    assert costs["agreeing"].recorded_se_ns <= 4.0
    assert costs["agreeing"].recorded_ns == pytest.approx(400, abs=4)
    assert (costs["wrong"].recorded_ns, costs["wrong"].recorded_se_ns) == own
    assert "contradict" in costs["wrong"].source


def test_a_process_without_costs_does_not_keep_others_from_being_corrected():
    """Its description is missing where it was killed at once, or the disk was full."""
    trace, _ = gather(0, inside_ns=300.0, around_ns=500.0, rounds=6)
    unknown = replace(trace.processes[1], alone_ns={}, parent=99)
    profile = Profile(replace(trace, processes=(trace.processes[0], unknown, *trace.processes[2:])))
    corrected = {row.process: row.corrected_ns for row in profile.breakdown()}
    assert corrected.pop("8") is None
    assert None not in corrected.values()


def test_a_process_without_costs_that_ends_last_keeps_the_end_where_it_is():
    trace, _ = gather(0, inside_ns=300.0, around_ns=500.0, rounds=6)
    unknown = replace(trace.processes[1], alone_ns={}, parent=99)
    longer = replace(trace.threads[1], time_ns=np.append(trace.threads[1].time_ns[:-1], 10 * trace.end_ns))
    profile = Profile(
        replace(
            trace,
            end_ns=10 * trace.end_ns,
            processes=(trace.processes[0], unknown, *trace.processes[2:]),
            threads=(trace.threads[0], longer, *trace.threads[2:]),
        )
    )
    assert profile.wall is not None
    assert profile.wall.likely_ns == profile.wall_ns


def test_a_process_that_used_an_instrument_of_unknown_cost_is_left_uncorrected():
    trace, _ = gather(0, inside_ns=300.0, around_ns=500.0, rounds=6)
    assert None not in {row.corrected_ns for row in Profile(trace).breakdown()}
    first = replace(trace.processes[0], alone_ns={"call": (800.0, 0.0)})  # its waits are annotated
    profile = Profile(replace(trace, processes=(first, *trace.processes[1:])))
    assert {row.corrected_ns for row in profile.breakdown() if row.process == "7"} == {None}
    assert None not in {row.corrected_ns for row in profile.breakdown() if row.process != "7"}


def program(now, num_spans, cost_ns):
    """Spans of 5 µs, with 5 µs before each."""
    writer = Writer(now, inside_ns=cost_ns / 2, around_ns=cost_ns / 2)
    writer.put(STEP, 0, 1)
    for _ in range(num_spans):
        writer.work(5_000, "outside")
        writer.span(STEP_SITE, 5_000, "step")
    writer.put(THREAD_END)
    return writer


def test_what_a_process_becomes_by_exec_begins_as_much_earlier_as_it_ended_before():
    before = program(0, 1_000, 1_000.0)
    after = program(before.now, 1_000, 1_000.0)
    threads = [before.thread(process=0, tid=7), after.thread(process=1, tid=7)]
    known = {"call": (1.0, 0.0), "annotation": (1.0, 0.0)}
    trace = trace_of_planted(threads, int(after.now), parents=(1, 1), alone_ns={"call": (1_000.0, 0.0)}, prior=known)
    first, second = (replace(process, pid=7, start=start) for start, process in enumerate(trace.processes, 1))
    profile = Profile(replace(trace, processes=(first, second)))
    assert profile.wall is not None
    assert profile.wall.likely_ns == 2 * 1_000 * 10_000


def test_a_child_comes_from_what_its_parent_was_when_it_began():
    trace, _ = gather(0, inside_ns=300.0, around_ns=500.0, rounds=6)
    times = [(0, 10), (30, 40), (60, 70), (80, 90)]
    pids = [(7, 1), (8, 7), (7, 1), (9, 7)]  # 7, its child 8, what 7 has become by exec, and a child of that
    order = [0, 2, 1, 3]  # by the ticks of their begin: an exec is one tick after that of the first program
    one = trace.processes[0]
    processes = tuple(replace(one, pid=pids[i][0], parent=pids[i][1], start=100 + n) for n, i in enumerate(order))
    threads = tuple(
        replace(thread_of([(times[i][0], BEGIN, 0), (times[i][1], END, 0)]), process=n) for n, i in enumerate(order)
    )
    origins = replace(trace, processes=processes, threads=threads).origins
    assert origins == (-1, 0, 0, 1)


def test_a_process_with_a_number_that_another_had_before_comes_from_its_own_parent():
    trace, _ = gather(0, inside_ns=300.0, around_ns=500.0, rounds=6)
    one, times = trace.processes[0], [(0, 90), (10, 20), (30, 80), (40, 50)]
    numbers = [(7, 1, 100), (8, 7, 110), (9, 7, 200), (8, 9, 9_000)]  # pid, parent, start: 8 has ended, and is again
    processes = tuple(replace(one, pid=pid, parent=parent, start=start) for pid, parent, start in numbers)
    threads = tuple(
        replace(thread_of([(begin, BEGIN, 0), (end, END, 0)]), process=n) for n, (begin, end) in enumerate(times)
    )
    assert replace(trace, processes=processes, threads=threads).origins == (-1, 0, 0, 2)


def test_a_trace_without_costs_is_left_uncorrected():
    trace = trace_of([thread_of([(0, BEGIN, 0), (10, END, 0)])], 0, 20, SITES)
    profile = Profile(replace(trace, processes=(replace(trace.processes[0], alone_ns={}),)))
    assert profile.wall is None
    assert {row.corrected_ns for row in profile.breakdown()} == {None}
