"""Segments: created, attached, refused, let go; with an owner that dies."""

import dataclasses
import gc
import itertools
import mmap
import multiprocessing
import os
import pickle
import struct
import sys

import numpy as np
import pytest
from lone_process import run_in_child

from drivetrain.core import segments
from drivetrain.core.errors import ForeignSegment, OwnerDead, SegmentError
from drivetrain.core.segments import Segment

SPAWN = multiprocessing.get_context("spawn")


def test_a_new_segment_is_zeroed_page_aligned_and_writable():
    with Segment.create("thing", 10_000, {"a": [1, "two"]}) as segment:
        payload = np.frombuffer(segment.payload, np.uint8)
        assert len(payload) == 10_000
        assert payload.ctypes.data % mmap.PAGESIZE == 0
        assert not payload.any()
        payload[:] = 7
        assert segment.meta == {"a": [1, "two"]}
        del payload


@pytest.mark.parametrize("num_letters", [0, 4000, 5000, 100_000])
def test_metadata_may_be_longer_than_a_page(num_letters):
    segment = Segment.create("thing", 64, {"text": "x" * num_letters})
    with segment, Segment.attach(segment.handle(), "thing") as other:
        assert other.meta == segment.meta
        other.payload[0] = 9
        assert segment.payload[0] == 9


def double_every_byte(handle):
    with Segment.attach(handle, "thing") as segment:
        view = np.frombuffer(segment.payload, np.uint8).copy() * 2
        segment.payload[:] = view.tobytes()


def test_another_process_sees_and_changes_the_same_bytes():
    with Segment.create("thing", 4) as segment:
        segment.payload[:] = b"\1\2\3\4"
        child = SPAWN.Process(target=double_every_byte, args=(pickle.loads(pickle.dumps(segment.handle())),))
        child.start()
        child.join()
        assert bytes(segment.payload) == b"\2\4\6\10"


def test_a_view_keeps_the_memory_after_close():
    segment = Segment.create("thing", 100)
    view = np.frombuffer(segment.payload, np.uint8)
    view[:] = 3
    segment.close()
    segment.close()
    assert (view == 3).all()
    with pytest.raises(SegmentError, match="closed"):
        segment.handle()


def test_close_leaves_no_descriptor_and_no_mapping():
    def held():
        with open("/proc/self/maps", "rb") as maps:  # files that others have mapped may have any name
            return len(os.listdir("/proc/self/fd")), maps.read().count(b"drivetrain-thing")

    gc.collect()  # those of other tests
    before = held()
    for _ in range(10):
        with Segment.create("thing", 10_000) as segment:
            Segment.attach(segment.handle(), "thing").close()
            with pytest.raises(ForeignSegment):
                Segment.attach(dataclasses.replace(segment.handle(), kind="other"), "thing")
            with pytest.raises(ForeignSegment):
                Segment.attach(dataclasses.replace(segment.handle(), kind="other"), "other")
    assert held() == before


def test_segments_that_nobody_holds_any_more_are_closed():
    gc.collect()  # those of other tests
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        segment = Segment.create("thing", 10_000)
        attached = Segment.attach(segment.handle(), "thing")
        del segment, attached
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == before


def test_ctrl_c_while_a_disk_makes_room_leaves_no_file_open(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "posix_fallocate", interrupted)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyboardInterrupt):
        Segment.create("thing", 10_000, scratch_dir=tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_ctrl_c_anywhere_while_attaching_closes_no_descriptor_that_is_another_ones_by_then():
    def interrupted_at(number):
        """The error of an attach that Ctrl-C ends at this of its lines; None where it has fewer."""
        lines = itertools.count()

        def trace(frame, event, _):
            if event == "line" and frame.f_code.co_filename == segments.__file__ and next(lines) == number:
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            Segment.attach(handle, "thing").close()
        except KeyboardInterrupt as error:
            return error
        finally:
            sys.settrace(None)

    with Segment.create("thing", 64) as segment:
        handle = segment.handle()
        for number in itertools.count():
            error = interrupted_at(number)
            if error is None:
                break
            with open(os.devnull) as another:  # by the number that the attached one had
                del error
                gc.collect()
                os.fstat(another.fileno())
        assert number > 20


def test_more_memory_than_there_is_is_refused_in_a_sentence():
    with pytest.raises(SegmentError, match=r"a thing segment needs 1\.00 PiB, but .* are available"):
        Segment.create("thing", 2**50)


@pytest.mark.parametrize(
    ("limit", "most", "make", "attach"),
    [
        (
            "NOFILE",
            0,
            "a thing segment: the system does not say how much memory there is: Too many",
            "Too many open files",
        ),
        ("FSIZE", 10, "cannot create a thing segment of 64.00 MiB: File too large", None),
        (
            "AS",
            "used + 2**25",
            "cannot create a thing segment of 64.00 MiB: Cannot allocate memory",
            "could not get 64.00 MiB",
        ),
    ],
)
def test_a_limit_of_the_process_that_is_in_the_way_of_a_segment_is_named(limit, most, make, attach):
    text = f"""
import resource
from pathlib import Path
from drivetrain.core.errors import SegmentError
from drivetrain.core.segments import Segment
segment = Segment.create("thing", 2**26)
handle = segment.handle()
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_{limit}, ({most}, {most}))
for act in (lambda: Segment.create("thing", 2**26), lambda: Segment.attach(handle, "thing")):
    try:
        act().close()
        print("no error")
    except SegmentError as error:
        print(error)
"""
    option = {"NOFILE": "n", "FSIZE": "f", "AS": "v"}[limit]
    made, attached = run_in_child(text).splitlines()
    assert make in made
    assert made.endswith(f"(ulimit -{option})")
    assert attached == "no error" if attach is None else attach in attached and f"(ulimit -{option})" in attached
    assert "another user" not in attached


def test_available_memory_is_positive_and_no_more_than_the_machine_has():
    assert 0 < segments.available_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_the_segment_of_a_dead_process_is_refused():
    text = "import pickle, sys; from drivetrain.core.segments import Segment; "
    text += "print(pickle.dumps(Segment.create('thing', 64).handle()).hex())"
    with pytest.raises(OwnerDead, match="is gone"):
        Segment.attach(pickle.loads(bytes.fromhex(run_in_child(text))), "thing")


@pytest.mark.parametrize(
    ("offset", "data"),
    [
        (0, b"NOTMAGIC"),
        (8, struct.pack("<I", 1)),
        (12, b"\xff\xfe else"),
        (28, struct.pack("<Q", 2**63)),
        (36, struct.pack("<Q", 65)),
        (44, struct.pack("<I", 3)),
        (48, b"\xff\xff"),
    ],
)
def test_a_damaged_header_is_refused(offset, data):
    with Segment.create("thing", 64, {"a": 1}) as segment:
        handle = segment.handle()
        with open(f"/proc/self/fd/{handle.fd}", "r+b", buffering=0) as memory:
            os.pwrite(memory.fileno(), data, offset)
        with pytest.raises(ForeignSegment):
            Segment.attach(handle, "thing")
