"""The memory report: everything a replay takes, before it is taken."""

import dataclasses
import re

import pytest
from children import run_script

from drivetrain.core.errors import InvalidInput, SegmentError
from drivetrain.replay import MemoryReport, Replay, memory_report

SPEC = {"obs": {"camera": ((84, 84), "uint8"), "speed": ((), "float16")}, "action": [((2,), "float32"), ((), "int8")]}


@pytest.mark.parametrize("capacity", [1, 17, 5000])
@pytest.mark.parametrize(
    "settings",
    [{}, {"prioritized": False}, {"weights_by": "buffer", "num_step": 3, "shared": True}, {"initial_priority": 0.5}],
)
def test_the_total_is_what_the_replay_takes(capacity, settings):
    report = memory_report(capacity, SPEC, **settings)
    with Replay(capacity, SPEC, **settings) as replay:
        assert report.nbytes == replay.nbytes == sum(region.nbytes for region in report.regions)
    sizes = {region.name: region.nbytes for region in report.regions}
    assert sizes["obs/camera"] == sizes["next_obs/camera"] == capacity * 84 * 84
    assert (sizes["action/0"], sizes["action/1"]) == (capacity * 8, capacity)
    assert ("sum tree" in sizes) == settings.get("prioritized", True)
    assert ("extremes" in sizes) == ("weights_by" in settings)
    assert min(sizes.values()) > 0


def test_a_report_prints_a_line_per_part_and_cannot_be_changed():
    report = memory_report(2**20, SPEC)
    lines = str(report).splitlines()
    assert len(lines) == len(report.regions) + 1
    assert len({len(line) for line in lines}) == 1
    assert lines[-1].split() == ["total", "for", "1048576", "rows", "13.82", "GiB", "100.0%"]
    assert any(line.split() == ["next_obs/camera", "6.89", "GiB", "49.9%"] for line in lines)
    assert isinstance(report, MemoryReport)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.capacity = 3


def test_what_does_not_fit_is_refused_as_replay_refuses_it():
    with pytest.raises(InvalidInput, match="capacity: expected an integer"):
        memory_report(0, SPEC)
    with pytest.raises(InvalidInput, match="spec: expected a dict"):
        memory_report(8, [])
    with pytest.raises(TypeError, match="num_steps"):
        memory_report(8, SPEC, num_steps=3)


@pytest.mark.parametrize("shared", [True, False])
def test_too_little_memory_names_the_largest_parts(shared):
    largest = r"largest parts are obs/camera 27.56 TiB, next_obs/camera 27.56 TiB, action/0 32.00 GiB\)"
    with pytest.raises(SegmentError, match=largest):
        Replay(2**32 - 1, SPEC, shared=shared)


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({}, r"smaller fields, or store each observation once \(share_next_obs, frame_stack\), or put it on a disk by"),
        (
            {"share_next_obs": True},
            r"; use a smaller capacity or smaller fields, or put it on a disk by scratch_dir \(",
        ),
    ],
)
def test_too_little_memory_names_what_would_take_less(settings, remedy):
    with pytest.raises(SegmentError, match=remedy):
        Replay(2**31, SPEC, **settings)


def test_too_little_memory_for_a_file_names_what_load_can_do_about_it(tmp_path):
    path, remedy = tmp_path / "saved", r"; load it with a smaller capacity, or put it on a disk by scratch_dir \("
    Replay(8, SPEC).save(path)
    with pytest.raises(SegmentError, match=remedy):
        Replay.load(path, capacity=2**32 - 1)


def test_a_limit_of_the_process_that_has_no_room_is_told_with_what_wanted_how_much(tmp_path):
    """As of `ulimit -v`, which what the kernel says of available memory knows nothing of."""
    printed = run_script(
        """
import mmap, resource, sys
from children import *
from drivetrain.core.errors import SegmentError
spec = {"x": ((1000,), "float32")}
replay = Replay(1000, spec)
step = {"x": np.zeros((8, 1000), np.float32), "reward": np.zeros(8), "terminated": np.zeros(8, bool)}
replay.writer(8).add(**step, truncated=np.zeros(8, bool))
replay.save(sys.argv[1])
with open("/proc/self/statm") as statm:
    now = int(statm.read().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (now + 2**28, resource.RLIM_INFINITY))
for call in (
    lambda: Replay(200_000, spec),
    lambda: Replay(200_000, spec, shared=True),
    lambda: Replay.load(sys.argv[1], capacity=200_000),
    lambda: replay.new_batch(200_000),
    lambda: replay.read(np.repeat(replay.all_keys(), 20_000)),
):
    try:
        call()
    except SegmentError as error:
        print(error)
assert len(replay) == 8
""",
        tmp_path / "file",
    )
    told = printed.splitlines()
    assert len(told) == 5
    assert all(re.search(r" [67]\d\d\.\d\d MiB", line) for line in told)
    assert sum("a limit of this process may be smaller (ulimit -v)" in line for line in told) == 4
