"""Recordings that are damaged, wherever, are one sentence, also where what is damaged still reads as numbers."""

import json
import random
import re
import shutil

import numpy as np
import pytest

from drivetrain import scope
from drivetrain.cli.main import answer
from drivetrain.core.errors import FileFormatError
from drivetrain.scope.trace.events import BEGIN

# Event and SegmentHeader of cpp/include/drivetrain/event_log_format.hpp
EVENT = np.dtype([("time_ns", "<i8"), ("site", "<u4"), ("kind", "<u2"), ("value", "<u2")])
HEADER_NBYTES = 80


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "run.scope"
    with scope.session(folder, calibrate_every=2):
        for _ in range(100):
            with scope.operation("mine"), scope.phase("early"):
                scope.mark_step()
    return folder


@pytest.fixture
def damaged(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "damaged")


def edit_events(folder, change):
    file = min(folder.glob("*.events"))
    raw = bytearray(file.read_bytes())
    size = (len(raw) - HEADER_NBYTES) // EVENT.itemsize
    events = np.frombuffer(raw, EVENT, size, HEADER_NBYTES)
    change(events)
    file.write_bytes(raw)


def later(events):
    events["time_ns"][10] += 10**12


def of_no_site(events):
    events["kind"][10], events["site"][10] = 256 + BEGIN, 2**31 + 7


def of_no_kind(events):
    events["kind"][10] = 77


def before_time(events):
    events["time_ns"][0] = -5


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (later, "events in order of time"),
        (of_no_site, "sites in thread 0"),
        (of_no_kind, "kinds of events"),
        (before_time, "an end after a begin"),
    ],
)
def test_events_that_cannot_have_been_recorded_are_one_sentence(damaged, change, what):
    edit_events(damaged, change)
    with pytest.raises(FileFormatError, match=f"expected .*{what}.*the recording is damaged; record again"):
        scope.load(damaged)


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("argv", ["python", None], "arguments of process .* that are texts"),
        ("parent", {}, "processes by whole numbers"),
        ("alone_ns", {"call": [1.0, None]}, "two numbers for what call costs"),
        ("alone_ns", {"call": [1e300, 1.0]}, "two numbers for what call costs"),
        ("alone_ns", 0.5, "the recording of a session, got a damaged one"),
    ],
)
def test_a_process_that_cannot_have_been_is_one_sentence(damaged, key, value, what):
    file = next(damaged.glob("[0-9]*.json"))
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))
    with pytest.raises(FileFormatError, match=f"expected {what}"):
        scope.load(damaged)


def test_a_site_with_a_number_that_no_program_reaches_is_one_sentence(damaged):
    file = next(damaged.glob("*.sites"))
    file.write_text(file.read_text().replace('"number": 1,', f'"number": {2**62},'))
    with pytest.raises(FileFormatError, match=f"expected a whole number and texts, got {2**62} and"):
        scope.load(damaged)


@pytest.mark.parametrize("line", ["[1, 2]", "7", '"network"', "null"])
def test_a_site_that_is_none_is_one_sentence(damaged, line):
    file = next(damaged.glob("*.sites"))
    file.write_text(f"{file.read_text()}{line}\n")
    with pytest.raises(FileFormatError, match=r"expected a whole number and texts, got .*; record again"):
        scope.load(damaged)


@pytest.mark.parametrize("prior", [3, None, {"call": [1.0]}, {"call": ["a", 1.0]}])
def test_an_expectation_that_is_no_number_is_one_sentence(damaged, prior):
    file = damaged / "session.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "prior": prior}))
    with pytest.raises(FileFormatError, match=r"expected two numbers for what .* was expected to cost"):
        scope.load(damaged)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b'"time_class": "python"', "sites of texts, and of a class of python"),
        (b'"phase": "early"', "sites of texts"),
        (b'"num_dropped": 0}, "notes"', "a number of events that found no room"),
        (b'"num_dropped": 0, "num_events"', "whole numbers and a name in thread 0"),
    ],
)
def test_a_packed_recording_whose_description_is_damaged_is_one_sentence(whole, tmp_path, text, what):
    packed = shutil.copytree(whole, tmp_path / "packed")
    pq = pytest.importorskip("pyarrow.parquet", reason='needs PyArrow: pip install "drivetrain[scope]"')
    scope.pack(packed)
    table = pq.read_table(packed / "trace.parquet")
    key = b"drivetrain.scope"
    described = table.schema.metadata[key]
    name = text.partition(b":")[0]
    damaged = described.replace(text, name + b": [7]" + text.partition(b"0")[2])
    assert damaged != described
    pq.write_table(table.replace_schema_metadata({key: damaged}), packed / "trace.parquet")
    with pytest.raises(FileFormatError, match=f"expected {what}"):
        scope.load(packed)


@pytest.mark.parametrize(
    ("key", "value"), [("about", []), ("threads", [7]), ("sites", 7), ("processes", {"a": 1}), ("notes", [7])]
)
def test_a_packed_recording_that_describes_something_else_is_one_sentence(whole, tmp_path, key, value):
    packed = shutil.copytree(whole, tmp_path / "packed")
    pq = pytest.importorskip("pyarrow.parquet", reason='needs PyArrow: pip install "drivetrain[scope]"')
    scope.pack(packed)
    table = pq.read_table(packed / "trace.parquet")
    (described,) = table.schema.metadata.items()
    damaged = {described[0]: json.dumps({**json.loads(described[1]), key: value}).encode()}
    pq.write_table(table.replace_schema_metadata(damaged), packed / "trace.parquet")
    with pytest.raises(FileFormatError, match=r"expected .* damaged( one|; record again)"):
        scope.load(packed)


@pytest.mark.parametrize("seed", range(40))
def test_a_report_of_a_recording_that_is_damaged_anywhere_is_made_or_is_one_line(damaged, tmp_path, capsys, seed):
    draw = random.Random(seed)
    file = draw.choice(sorted(damaged.iterdir()))
    raw = bytearray(file.read_bytes())
    if file.suffix in (".json", ".sites") and draw.random() < 0.7:
        begin, end = draw.choice([match.span() for match in re.finditer(rb'"[^"]*"|-?\d[\d.e+-]*', raw)])
        raw[begin:end] = draw.choice([b"-1", b"null", b"{}", b"[]", b'"x"', b"99999999999999999999", b"1e400"])
    else:
        for _ in range(draw.choice([1, 3, 30])):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
    file.write_bytes(raw)
    made = [f"--{name}={tmp_path / name}" for name in ("json", "html", "csv", "perfetto")]
    code = answer(["report", str(damaged), *made])
    said = capsys.readouterr().err
    assert (code, said) == (0, "") or (code == 2 and said.count("\n") == 1 and "expected" in said)
