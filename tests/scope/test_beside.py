"""Runs side by side say of each what it says alone."""

import dataclasses
import json
import re
import shutil
import threading
import time
from pathlib import Path

import pytest
from browser import FITS, NUM_REQUESTS, needs_chromium, seen, without_scripts
from test_reports import Cells

from drivetrain import scope
from drivetrain.cli.main import main
from drivetrain.scope.profile import Profile
from drivetrain.scope.report import beside, beside_json, beside_page
from drivetrain.scope.report.amounts import seconds
from drivetrain.scope.report.shares import shares


def record(folder, *, num_steps, own):
    with scope.session(folder, calibrate_every=0):
        for _ in range(num_steps):
            with scope.operation("simulation"):
                sum(range(10000))
            with scope.operation(own):
                sum(range(1000))
            scope.mark_step()
    return folder


@pytest.fixture
def folders(tmp_path):
    return [
        record(tmp_path / "before & <b>", num_steps=20, own="mine"),
        record(tmp_path / "after", num_steps=40, own="other's"),
    ]


@pytest.fixture
def runs(folders):
    return beside.lettered({folder.name: scope.load(folder) for folder in folders})


def test_the_json_holds_each_run_as_it_is_alone_and_rows_side_by_side(folders, tmp_path, capsys):
    file = tmp_path / "both.json"
    assert main(["report", *map(str, folders), "--json", str(file)]) == 0
    document = json.loads(file.read_text())
    assert list(document["runs"]) == [folder.name for folder in folders]
    for folder in folders:
        profile = scope.load(folder)
        assert document["runs"][folder.name] == json.loads(json.dumps(profile.as_json()))
        beside_each_other = {
            (row["operation"], row["class"]): row["runs"][folder.name]
            for row in document["rows"]
            if folder.name in row["runs"]
        }
        alone = {(share.operation, share.time_class): share for share in shares(profile.breakdown())}
        assert beside_each_other.keys() == alone.keys()
        for key, share in alone.items():
            assert beside_each_other[key]["raw_ns"] == share.raw_ns
            assert beside_each_other[key]["per_step_ns"] == share.corrected_ns / profile.num_steps()
    printed = capsys.readouterr().out
    assert "A: before & <b>: " in printed
    assert "B / A" in printed


def test_rows_side_by_side_have_no_corrected_time_where_the_run_alone_has_none(runs, monkeypatch):
    known, unknown = runs
    rows = [
        dataclasses.replace(row, corrected_ns=None, low_ns=None, high_ns=None) for row in unknown.profile.breakdown()
    ]
    monkeypatch.setattr(unknown.profile, "_breakdown", tuple(rows))
    for row in beside_json.as_json(runs)["rows"]:
        if unknown.name in row["runs"]:
            found = row["runs"][unknown.name]
            assert [found[name] for name in ("corrected_ns", "low_ns", "high_ns")] == [None] * 3
            assert found["per_step_ns"] == found["raw_ns"] / 40
        if known.name in row["runs"]:
            assert row["runs"][known.name]["corrected_ns"] is not None


def test_ratios_are_per_step_where_steps_are_known_and_absent_where_one_run_has_nothing(runs):
    first, second = runs
    key = ("simulation", "python")
    expected = (second.shares[key].corrected_ns / 40) / (first.shares[key].corrected_ns / 20)
    assert beside.ratio(second, first, key) == pytest.approx(expected)
    assert beside.ratio(first, first, key) == pytest.approx(1)
    assert beside.ratio(second, first, ("mine", "python")) is None
    assert set(beside.keys(runs)) >= {("mine", "python"), ("other's", "python")}


def test_steps_are_counted_among_all_events_once_and_not_for_every_row(runs, monkeypatch):
    counted: list[Profile] = []
    count = Profile.extrapolation
    monkeypatch.setattr(Profile, "extrapolation", lambda profile: counted.append(profile) or count(profile))
    assert beside_page.render(runs, "both")
    assert len(beside_json.as_json(runs)["rows"]) > 2
    assert sorted(map(id, counted)) == sorted(id(run.profile) for run in runs)


@pytest.mark.whole
def test_per_step_is_of_all_steps_also_for_threads_that_take_none_and_are_never_muted(tmp_path):
    step_s, num_steps = 0.001, 600

    def busy():
        until = time.perf_counter() + step_s
        while time.perf_counter() < until:
            pass

    def record(folder, calibrate_every):
        over, busy_s = threading.Event(), 0.0

        def wait():
            with scope.operation("background"):
                over.wait()

        with scope.session(folder, calibrate_every=calibrate_every):
            thread = threading.Thread(target=wait)
            thread.start()
            for _ in range(num_steps):
                begin_s = time.perf_counter()
                with scope.operation("simulation"):
                    busy()
                busy_s += time.perf_counter() - begin_s
                scope.mark_step()
            over.set()
            thread.join()
        took_ns[folder.name] = busy_s / num_steps * 1e9  # more than asked for where others have the cores
        return scope.load(folder)

    took_ns = {}
    profiles = {name: record(tmp_path / name, every) for name, every in (("all", 0), ("half", 2))}
    assert profiles["half"].num_recorded_steps() < 0.6 * num_steps
    for run in beside.lettered(profiles):
        in_simulation, in_background = (
            run.per_step_ns(run.shares[name, "python"]) for name in ("simulation", "background")
        )
        assert 0.75 < in_simulation / took_ns[run.name] < 1.4
        assert 0.9 < in_background / in_simulation < 1.5  # twice as much, as if it had been muted, too
    unrecorded = run.shares["unrecorded", "unrecorded"]
    assert run.per_step_ns(unrecorded) is None
    assert beside.ratio(run, run, ("unrecorded", "unrecorded")) is None


def test_a_ratio_of_what_cannot_be_told_from_recording_is_not_given(runs, monkeypatch):
    first, second = runs
    key = ("simulation", "python")
    rows = [
        dataclasses.replace(row, corrected_ns=-3.0, low_ns=-9.0, high_ns=4.0) if row.operation == key[0] else row
        for row in first.profile.breakdown()
    ]
    monkeypatch.setattr(first.profile, "_breakdown", tuple(rows))
    assert beside.ratio(second, first, key) is None


def test_the_page_has_the_numbers_of_all_runs_and_asks_for_nothing(runs):
    text = beside_page.render(runs, "two")
    parser = Cells("breakdown")
    parser.feed(text)
    assert parser.stack == []
    rows = {tuple(row[:2]): row for row in parser.rows if row}
    for number, run in enumerate(runs):
        for key, share in run.shares.items():
            assert rows[key][2 + 4 * number] == seconds(share.raw_ns)
    text = without_scripts(text)
    assert not re.search(r"https?://|src=|href=|url\(|@import|<script", text)
    assert "before & <b>" not in text


@pytest.mark.parametrize("pattern", ["session.json", "shared", "*.events", "*.sites", "[0-9]*.json"])
@pytest.mark.parametrize("flag", ["--json", "--html"])
def test_a_report_is_not_written_over_the_recording_that_it_is_of(tmp_path, capsys, flag, pattern):
    with scope.session(tmp_path / "run.scope"), scope.operation("mine"):
        pass
    part = next((tmp_path / "run.scope").glob(pattern))
    before = part.read_bytes()
    assert main(["report", str(tmp_path / "run.scope"), flag, str(part)]) == 2
    assert "expected a file of its own, got one of the recording; choose another name" in capsys.readouterr().err
    assert part.read_bytes() == before
    assert main(["report", str(tmp_path / "run.scope"), flag, str(tmp_path / "run.scope" / "report")]) == 0


def test_a_report_is_not_written_over_the_trace_that_it_is_of(tmp_path, capsys):
    trace = shutil.copy(Path(__file__).parent / "kineto.json", tmp_path / "trace.json")
    before = trace.read_bytes()
    assert main(["report", str(trace), "--json", str(trace)]) == 2
    assert "expected a file of its own, got one of the recording" in capsys.readouterr().err
    assert trace.read_bytes() == before


def test_what_cannot_be_shown_side_by_side_is_one_line(folders, tmp_path, capsys):
    one, two = map(str, folders)
    assert main(["report", one, one]) == 2
    assert main(["report", one, two, "--csv", str(tmp_path / "rows.csv")]) == 2
    assert main(["report", one, str(tmp_path / "absent")]) == 2
    assert main(["report"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("drivetrain: error: ") for line in lines)


def test_a_terminal_shows_every_number_also_where_an_operation_has_a_long_name(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        with scope.session(folder, calibrate_every=0), scope.operation("a name that is longer than any other " * 3):
            sum(range(1000))
    assert main(["report", *map(str, folders)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    (heading,) = [line.split() for line in lines if line.split()[:2] == ["operation", "class"]]
    assert heading == ["operation", "class", "A", "B", "C", "B", "/", "A", "C", "/", "A"]
    first = next(line for line in lines if "a name that" in line)
    assert first.count("×") == 2
    assert len(first.split("python")[1].split()) >= 5


@pytest.mark.whole
@needs_chromium
def test_a_browser_shows_the_page_on_a_small_screen_without_scrolling_sideways(runs, tmp_path):
    marks = "[...document.querySelectorAll('.intervals line')]"
    many, inside = f"{marks}.length > 3", f"{marks}.every(mark => mark.getBoundingClientRect().right <= innerWidth)"
    assert seen(beside_page.render(runs, "page"), tmp_path, FITS, NUM_REQUESTS, many, inside) == "true,0,true,true"
