"""A packed trace is the same trace in a fraction of the space."""

import os

import numpy as np
import pytest
from brute import traces
from hypothesis import HealthCheck, given, settings

from drivetrain import scope
from drivetrain.cli.main import main
from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.scope.profile import Profile
from drivetrain.scope.trace import parquet


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "run.scope"
    with scope.session(folder):
        for _ in range(20_000):
            with scope.operation("inference"), scope.operation("forward"):
                pass
            with scope.operation("simulation"):
                pass
            scope.mark_step()
    return folder


def same(first, second):
    assert (first.begin_ns, first.end_ns, first.sites, first.processes, first.notes, first.about) == (
        second.begin_ns,
        second.end_ns,
        second.sites,
        second.processes,
        second.notes,
        second.about,
    )
    for one, two in zip(first.threads, second.threads, strict=True):
        assert (one.process, one.number, one.tid, one.name, one.num_dropped) == (
            two.process,
            two.number,
            two.tid,
            two.name,
            two.num_dropped,
        )
        for name in ("time_ns", "kind", "site", "value"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
            assert getattr(one, name).dtype == getattr(two, name).dtype
    return True


def test_a_packed_session_is_read_as_before_at_six_bytes_per_event_or_fewer(folder):
    before = scope.load(folder)
    scope.pack(folder)
    assert sorted(file.name for file in folder.iterdir()) == ["session.json", "trace.parquet"]
    after = scope.load(folder)
    assert same(before.trace, after.trace)
    assert before.as_json() == after.as_json()
    nbytes = sum(file.stat().st_size for file in folder.iterdir())
    assert nbytes <= 6 * after.trace.num_events
    scope.pack(folder)  # again: nothing changes
    assert same(after.trace, scope.load(folder).trace)


def test_a_report_that_is_written_beside_a_recording_is_written_again_and_outlives_packing(folder):
    mine = folder / "my-report.json"
    for _ in range(2):
        assert main(["report", str(folder), "--json", str(mine)]) == 0
    assert main(["report", str(folder), "--pack"]) == 0
    assert sorted(file.name for file in folder.iterdir()) == [mine.name, "session.json", "trace.parquet"]


@pytest.mark.release
@given(trace=traces(in_order=False, lanes=True))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_trace_comes_back_from_its_file(trace, tmp_path):
    file = tmp_path / "trace.parquet"
    parquet.write(trace, file)
    again = parquet.read(file)
    assert same(trace, again)
    assert Profile(trace).as_json() == Profile(again).as_json()


def test_what_cannot_be_packed_or_is_damaged_is_said_and_kept(folder, tmp_path, capsys):
    session = folder / "session.json"
    text = session.read_text()
    session.write_text(text.replace("end_ns", "other"))
    names = sorted(file.name for file in folder.iterdir())
    with pytest.raises(InvalidInput, match="session that has ended"):
        scope.pack(folder)
    assert sorted(file.name for file in folder.iterdir()) == names
    session.write_text(text)
    assert main(["report", str(folder), "--pack"]) == 0
    packed = folder / "trace.parquet"
    packed.write_bytes(packed.read_bytes()[:-100])
    with pytest.raises(FileFormatError, match="cannot be read"):
        scope.load(folder)


def test_paths_are_what_users_mean_by_them_and_what_is_none_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with scope.session("~/run.scope"):
        pass
    scope.pack("~/run.scope")
    assert scope.load("~/run.scope").wall_ns > 0
    assert os.listdir() == ["run.scope"]
    for path in ("", None, 3, "a\0b"):
        for take in (scope.session, scope.load, scope.pack):
            with pytest.raises(InvalidInput, match=r"expected (a path|the path of a new folder), got"):
                take(path)
