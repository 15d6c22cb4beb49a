"""What recording GPUs costs a call is found in the run, set beside what CUPTI says, taken out; gaps are no idle GPU."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from brute import thread_of, trace_of
from brute_gpu import SITES_OF_TRAINING, gpu_of
from planted_gpu import program

from drivetrain.scope.calibration.device_calls import KINDS
from drivetrain.scope.profile import Profile
from drivetrain.scope.report import gpu as words
from drivetrain.scope.report import gpu_recording
from drivetrain.scope.trace import gpu
from drivetrain.scope.trace.blocks import MUTE_GPU
from drivetrain.scope.trace.events import BEGIN, BLOCK, COUNT, END, STEP

LAUNCH, COPY = KINDS.index("launch"), KINDS.index("copy")
ACT = 0


def cost_of(seed, **how):
    (found,) = Profile(program(seed, **how)[0]).correction.device_costs
    assert found is not None
    return found


@pytest.mark.release
@pytest.mark.parametrize("spins", [True, False])
def test_planted_costs_of_calls_are_recovered_within_their_errors_whether_waits_spin_or_not(spins):
    found = [cost_of(seed, spins=spins) for seed in range(8)]
    for kind, planted in ((LAUNCH, 2000.0), (COPY, 700.0)):
        apart = [one for one in found if all(len(set(group) & {LAUNCH, COPY}) < 2 for group in one.groups)]
        inside = [abs(one.ns[kind] - planted) <= 1.96 * one.se_ns[kind] for one in apart]
        assert sum(inside) >= len(apart) - 2
    totals = [one.num @ one.ns / (one.num[LAUNCH] * 2000 + one.num[COPY] * 700) for one in found]
    assert np.median(totals) == pytest.approx(1, abs=0.03)
    assert all(
        abs(one.calibrated_ns / total - one.calibrated_ns) <= 3 * one.calibrated_se_ns
        for one, total in zip(found, totals, strict=True)
    )


@pytest.mark.release
def test_a_cost_of_nothing_is_found_to_be_nothing():
    found = [cost_of(seed, costs=(0.0, 0.0, 0.0), rounds=15) for seed in range(8)]
    assert sum(abs(one.calibrated_ns) <= 1.96 * one.calibrated_se_ns for one in found) >= 6


def test_kinds_that_come_in_one_proportion_have_one_cost_together():
    found = cost_of(3, mixed=False)
    (group,) = [group for group in found.groups if LAUNCH in group]
    assert COPY in group
    assert found.num @ found.ns == pytest.approx(found.num[LAUNCH] * 2000 + found.num[COPY] * 700, rel=0.1)


@pytest.mark.release
def test_costs_of_spans_are_not_taken_for_those_of_calls():
    within = 0
    for seed in range(6):
        (cost, _), *_ = Profile(program(seed)[0]).correction.costs
        within += abs(cost.estimate.ns - 400) <= 1.96 * cost.estimate.se_ns
    assert within >= 5


@pytest.mark.parametrize(("own", "agrees"), [(1.0, True), (0.3, False), (0.0, False)])
def test_what_cupti_says_of_itself_is_set_beside_it(own, agrees):
    profile = Profile(program(5, own=own, rounds=15)[0])
    (check,) = profile.usage.recording.checks
    assert check.agrees == agrees
    calls = {one.kind: one for one in check.calls}
    assert calls["launch"].own_ns == pytest.approx(own * 2000, rel=1e-2, abs=1)
    truth = calls["launch"].num * 2000 + calls["copy"].num * 700
    assert check.ns == pytest.approx(truth, rel=0.1)
    text = " ".join(words.in_words(profile.usage))
    assert ("They disagree beyond the error" in text) == (not agrees)
    assert ("within the error" in text) == agrees
    if own:
        assert check.ratio == pytest.approx(1 / own, rel=0.1)
    assert "not calibrated" not in text
    assert {row[0] for row in gpu_recording.cells(profile.usage)} == {"launch", "copy"}


@pytest.mark.release
@pytest.mark.parametrize("own", [0.0, 0.4])
def test_calls_are_corrected_to_what_they_take_alone(own):
    inside, off = 0, []
    for seed in range(4):
        trace, device = program(seed, own=own)
        profile = Profile(trace)
        rows = [row for row in profile.breakdown() if row.time_class in ("accelerator_api", "profiler")]
        raw = sum(row.raw_ns for row in rows)
        assert raw > 1.3 * device.alone_api
        likely, low, high = (sum(getattr(row, n) for row in rows) for n in ("corrected_ns", "low_ns", "high_ns"))
        inside += low <= device.alone_api <= high
        off.append(likely / device.alone_api - 1)
    assert inside >= 3
    assert abs(np.median(off)) < 0.03


def test_too_few_blocks_leave_it_to_cuptis_own_word():
    profile = Profile(program(0, rounds=3, own=1.0)[0])
    assert profile.correction.device_costs == [None]
    assert "not calibrated" in profile.usage.recording.source
    assert profile.usage.recording.checks == ()


def test_gaps_are_neither_idle_nor_busy_and_shares_are_of_what_was_recorded():
    trace, device = program(1, costs=(0.0, 0.0, 0.0))
    profile = Profile(trace)
    usage = profile.usage
    assert 0.5 < usage.recorded_ns / usage.wall_ns < 0.95
    assert usage.busy_ns < usage.busy_in_all_ns == usage.busy_ns * usage.wall_ns / usage.recorded_ns
    assert usage.busy_in_all_ns == pytest.approx(device.ran_ns, rel=0.03)
    sums = Counter()
    for row in profile.breakdown():
        if row.thread == "GPU 0 stream 7":
            sums[row.time_class] += row.raw_ns
    assert sum(sums.values()) == profile.wall_ns
    assert sums["unrecorded"] >= usage.wall_ns - usage.recorded_ns - 1
    assert "GPUs were recorded" in " ".join(words.in_words(usage))
    assert sum(usage.meanwhile.values()) == usage.busy_ns
    assert profile.num_gpu_steps() < profile.num_steps()


def test_a_gap_lasts_until_something_is_known_of_the_device_again():
    """Switched off from 20 to 40; a kernel of before 20 runs to 30; the first one launched after 40 begins at 55."""
    main = thread_of([(0, BEGIN, ACT), (100, END, ACT)])
    call = {"tid": 7, "kind": gpu.RUNTIME}
    api = [
        {**call, "begin_ns": 10, "end_ns": 12, "correlation": 1},
        {**call, "begin_ns": 42, "end_ns": 44, "correlation": 2},
        {"tid": 7, "kind": gpu.OVERHEAD, "detail": gpu.SWITCHED_OFF, "begin_ns": 20, "end_ns": 21},
        {"tid": 7, "kind": gpu.OVERHEAD, "detail": gpu.SWITCHED_ON, "begin_ns": 39, "end_ns": 40},
    ]
    activity = [
        {"kind": gpu.KERNEL, "correlation": 1, "begin_ns": 15, "end_ns": 30},
        {"kind": gpu.KERNEL, "correlation": 2, "begin_ns": 55, "end_ns": 60},
    ]
    trace = trace_of([main], 0, 100, SITES_OF_TRAINING)
    profile = Profile(replace(trace, gpu=gpu_of(activity, api)))
    assert profile.devices.gaps[0].begin.tolist() == [20]
    assert profile.devices.gaps[0].end.tolist() == [55]
    assert (profile.usage.recorded_ns, profile.usage.busy_ns) == (65, 10)
    waits = {**call, "begin_ns": 41, "end_ns": 47, "correlation": 3, "name": 1}
    earlier = Profile(replace(trace, gpu=gpu_of(activity, [*api, waits])))
    assert earlier.devices.gaps[0].end.tolist() == [47]
    never = Profile(replace(trace, gpu=gpu_of(activity[:1], [*api[:1], api[2]])))
    assert never.devices.gaps[0].end.tolist() == [100]
    stream = {(row.operation, row.time_class): row.raw_ns for row in profile.breakdown() if "GPU" in row.thread}
    assert stream == {
        ("inference", "gpu_kernel"): 20,
        ("other", "idle"): 55,
        ("unrecorded on GPUs", "unrecorded"): 25,
    }


def test_a_block_in_which_only_the_gpu_is_muted_is_unrecorded_too():
    """Its calls are not known, so that neither are the classes of its time."""
    events = [(0, BLOCK, MUTE_GPU), (10, BEGIN, ACT), (40, END, ACT), (50, COUNT, 1), (50, BLOCK, 0), (60, STEP, 0)]
    trace = trace_of([thread_of(events)], 0, 100, SITES_OF_TRAINING)
    rows = {row.time_class: row.raw_ns for row in Profile(replace(trace, gpu=gpu_of())).breakdown()}
    assert rows["unrecorded"] == 50
