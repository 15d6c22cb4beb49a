"""Reports say the same as the profile, and the page needs nothing but itself."""

import csv
import io
import json
import re
import shutil
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import FITS, NUM_REQUESTS, needs_chromium, seen, without_scripts
from brute import SITES, thread_of, threads, trace_of, traces
from hypothesis import given, settings
from planted import program_in_blocks

from drivetrain import scope
from drivetrain.cli.main import main
from drivetrain.core.printable import printable
from drivetrain.scope.profile import Profile
from drivetrain.scope.reference import innermost
from drivetrain.scope.report import page, perfetto, strip
from drivetrain.scope.report.amounts import seconds
from drivetrain.scope.report.console import console, path_shown
from drivetrain.scope.report.shares import in_words, shares
from drivetrain.scope.sites import UNRECORDED, Site
from drivetrain.scope.spans import span
from drivetrain.scope.trace.events import BEGIN, BLOCK, END, STEP

VOID = {"meta", "link", "br"}


class Cells(HTMLParser):
    """The text of the cells of a table by its id, and whether all tags are closed."""

    def __init__(self, table):
        super().__init__()
        self.wanted, self.inside, self.rows, self.stack = table, False, [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "table":
            self.inside = dict(attrs).get("id") == self.wanted
        if tag == "tr" and self.inside:
            self.rows.append([])
        if tag == "td" and self.inside:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if self.inside and self.stack and self.rows and self.rows[-1] and "td" in self.stack:
            self.rows[-1][-1] += data


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "<run> & 'scope'"
    with scope.session(folder, calibrate_every=0):  # on a slow machine steps would be muted, and missed below
        for _ in range(20):
            with scope.operation("inference"), scope.operation("<b>mine</b>"):
                sum(range(1000))
            with scope.operation("simulation"):
                sum(range(10000))
            scope.mark_step()
    return folder


def test_the_page_has_the_numbers_of_the_profile_and_closes_every_tag(folder):
    profile = scope.load(folder)
    parser = Cells("breakdown")
    parser.feed(page.render(profile, folder.name))
    assert parser.stack == []
    rows = [row for row in parser.rows if row]
    found = shares(profile.breakdown())
    assert [row[:3] for row in rows] == [[s.operation, s.time_class, seconds(s.raw_ns)] for s in found]
    assert sum(s.raw_ns for s in found) + sum(
        row.raw_ns for row in profile.breakdown() if row.time_class == "idle"
    ) == profile.wall_ns * len(profile.trace.threads)


def test_the_page_asks_for_nothing_and_escapes_what_programs_say(folder, tmp_path):
    html = tmp_path / "page.html"
    assert main(["report", str(folder), "--html", str(html)]) == 0
    text = without_scripts(html.read_text())
    assert not re.search(r"https?://|src=|href=|url\(|@import|<script", text)
    assert "<b>mine</b>" not in text
    assert "&lt;b&gt;mine&lt;/b&gt;" in text
    assert "<run>" not in text


def test_the_page_says_nothing_of_blocks_that_were_not_and_of_a_cost_that_nobody_knows(folder):
    switched_off = "recording was switched off"
    assert switched_off not in page.render(scope.load(folder), "page")
    assert switched_off in page.render(Profile(program_in_blocks(0)[0]), "page")
    trace = trace_of([thread_of([(0, BEGIN, 0), (900, END, 0)])])
    profile = Profile(replace(trace, processes=(replace(trace.processes[0], alone_ns={}),)))
    assert [profile.overhead()[name] for name in ("total_ns", "low_ns", "high_ns")] == [None] * 3
    text = page.render(profile, "page")
    assert "<td>added by recording, all threads</td><td>not identifiable</td>" in text
    assert "gives back its cost" not in text


@pytest.mark.whole
@needs_chromium
@pytest.mark.parametrize("width", [360, 1600])
def test_a_browser_shows_the_page_without_a_network_and_without_scrolling_sideways(folder, tmp_path, width):
    text = page.render(scope.load(folder), "page")
    drawn = "[...document.querySelectorAll('figure')].map(one => one.querySelectorAll('.parts rect').length > 0)"
    assert seen(text, tmp_path, FITS, NUM_REQUESTS, drawn, width=width) == "true,0,true,true,true"


def test_operations_are_printed_by_the_names_that_programs_give_them(tmp_path, capsys):
    names = ["[/data]", "[red]paint", ":fire:", "plain", "a\nline", "\x1b[31mred"]
    with scope.session(tmp_path / "one", calibrate_every=0):
        for name in names:
            with scope.operation(name):
                sum(range(100))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    for folders in (["one"], ["one", "two"]):
        assert main(["report", *(str(tmp_path / folder) for folder in folders)]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert all(any(line.strip().startswith(f"{printable(name)} ") for line in printed) for name in names)


@pytest.mark.parametrize("columns", ["80", "40"])
def test_a_narrow_terminal_cuts_no_name_short_and_no_number_in_two(tmp_path, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    with scope.session(tmp_path / "run", calibrate_every=0):
        for time_class in ("accelerator_api", "accelerator_sync"):
            with span(Site(time_class, "a name that is longer than any other", time_class)):
                sum(range(1000))
    assert main(["report", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in printed
    numbers = r" +\S+ .?s +\S+% +\S+ .?s +\S+ .?s\.\.\S+ .?s *"
    assert sum(re.fullmatch(f"a name .*{numbers}", line) is not None for line in lines) == 2
    several = [str(shutil.copytree(tmp_path / "run", tmp_path / name)) for name in "abc"]
    assert main(["report", *several]) == 0
    assert "…" not in capsys.readouterr().out


def test_a_name_without_an_end_takes_a_few_lines_and_no_screens_of_a_terminal(tmp_path, capsys):
    with scope.session(tmp_path / "one", calibrate_every=0), scope.operation("x" * 5_000):
        sum(range(100_000))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    for folders in (["one"], ["one", "two"]):
        assert main(["report", *(str(tmp_path / folder) for folder in folders)]) == 0
        assert 160 <= capsys.readouterr().out.count("x") < 700


def test_operations_numbered_by_a_counter_take_one_screen_of_a_terminal_and_all_are_in_the_json(tmp_path, capsys):
    with scope.session(tmp_path / "one", calibrate_every=0):
        for number in range(300):
            with scope.operation(f"episode {number}"):
                sum(range(100))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    file = tmp_path / "numbers.json"
    for folders in (["one"], ["one", "two"]):
        assert main(["report", *(str(tmp_path / folder) for folder in folders), "--json", str(file)]) == 0
        printed = capsys.readouterr().out
        assert 30 < printed.count("episode ") <= 40
        (rest,) = [line for line in printed.splitlines() if re.match(r"\d+ others ", line)]
        assert int(rest.split()[0]) >= 260
        assert "µs" in rest or "ms" in rest
        assert (
            len({row["operation"] for row in json.loads(file.read_text())["rows"]} & {"episode 0", "episode 299"}) == 2
        )


def test_eighty_columns_hold_the_longest_names_that_the_profiler_gives(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with scope.session(tmp_path / "run"), span(Site("wait", "backpropagation", "accelerator_sync")):
        sum(range(1000))
    assert main(["report", str(tmp_path / "run")]) == 0
    assert re.search(r"^backpropagation  accelerator_sync  .*s$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_terminal_without_letters_has_tables_with_question_marks_and_paths_that_can_be_told(monkeypatch, stream):
    text = io.TextIOWrapper(io.BytesIO(), "ascii", "backslashreplace")
    monkeypatch.setattr(sys, stream, text)
    where = console(stderr=stream == "stderr")
    where.print("5 µs")
    where.print(path_shown(Path("ö\udce9"), where))
    text.flush()
    assert text.buffer.getvalue() == b"5 ?s\n\\xf6\\udce9\n"


def test_words_name_what_dominates_and_what_to_do():
    act, step = 0, 1  # sites of brute.SITES: inference, simulation
    pieces = [(0, 300, act), (300, 950, step), (950, 1000, act)]
    events = [one for begin, end, site in pieces for one in ((begin, BEGIN, site), (end, END, site))]
    words = in_words(Profile(trace_of([thread_of(events)])))
    assert words[0].startswith("Most of the time is simulation: 65% of the 1 µs")
    assert "vector environment" in words[1]
    assert in_words(Profile(trace_of([]))) == ["Nothing was recorded."]


def test_waiting_in_no_operation_is_told_apart_and_what_dominates_is_what_is_done():
    sites = (Site("sleep", time_class="wait"), Site("step", operation="simulation", time_class="python"))
    pieces = [(0, 700, 0), (700, 900, 1)]
    events = [one for begin, end, site in pieces for one in ((begin, BEGIN, site), (end, END, site))]
    words = in_words(Profile(trace_of([thread_of(events)], 0, 1000, sites)))
    assert words[0].startswith("Beside waiting in no operation, most of the time is simulation: 22% of the 900 ns")
    assert "78% is waiting: for a thread, a process, a socket or a device, or asleep." in words


@pytest.mark.parametrize(("site", "is_said"), [(0, True), (2, False)])  # of brute.SITES: inference, native code
def test_where_no_operation_is_entered_nothing_is_said_to_be_before_the_first(site, is_said):
    trace = trace_of([thread_of([(0, STEP, 0), (600, BEGIN, site), (900, END, site)])])
    words = in_words(Profile(replace(trace, about={"argv": []})))
    assert any("before the first operation" in paragraph for paragraph in words) == is_said


@pytest.mark.release
@given(traces(in_order=False, lanes=True))
@settings(max_examples=40, deadline=None)
def test_every_trace_has_a_page_and_valid_json(trace):
    profile = Profile(trace)
    parser = Cells("breakdown")
    parser.feed(without_scripts(page.render(profile, "any")))
    assert parser.stack == []
    json.loads(json.dumps(profile.as_json(), allow_nan=False))
    for line in profile.timelines:
        assert len(strip.dominant(profile, line)) == strip.NUM_CELLS


def test_perfetto_and_csv_hold_the_events_and_rows_of_the_profile(folder, tmp_path):
    events_file, rows_file = tmp_path / "events.json", tmp_path / "rows.csv"
    assert main(["report", str(folder), "--perfetto", str(events_file), "--csv", str(rows_file)]) == 0
    profile = scope.load(folder)
    events = json.loads(events_file.read_text())
    begun = [event["name"] for event in events if event["ph"] == "B" and event["cat"] != "scope"]
    assert begun == ["inference", "<b>mine</b>", "simulation"] * 20
    assert len([event for event in events if event["ph"] == "E"]) == len([e for e in events if e["ph"] == "B"])
    assert len([event for event in events if event["ph"] == "i"]) == 20
    with rows_file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert sum(int(row["raw_ns"]) for row in rows) == profile.wall_ns
    assert [row["class"] for row in rows] == [row.time_class for row in profile.breakdown()]


def test_perfetto_shows_what_was_not_recorded_as_that():
    blocks = [(20, BLOCK, 3), (30, BLOCK, 1), (50, BLOCK, 0), (70, BLOCK, 3)]
    thread = thread_of([(0, BLOCK, 0), (5, BEGIN, 0), *blocks, (80, END, 0), (90, BLOCK, 0), (95, STEP, 0)])
    profile = Profile(trace_of([thread], 0, 100, (*SITES, UNRECORDED)))
    spans, stack = [], []
    for event in perfetto.events(profile):
        if event["ph"] == "B":
            stack.append(event)
        elif event["ph"] == "E":
            begun = stack.pop()
            spans.append((begun["name"], round(1000 * begun["ts"]), round(1000 * event["ts"])))
    muted = [(begin, end) for name, begin, end in spans if name == UNRECORDED.name]
    assert muted == [(20, 50), (70, 80), (80, 90)]  # cut where what is around it ends
    assert ("act", 5, 80) in spans
    assert stack == []
    shown_ns = sum(row.raw_ns for row in profile.breakdown() if row.time_class == UNRECORDED.time_class)
    assert shown_ns == sum(end - begin for begin, end in muted)


@given(thread=threads(0, 200, in_order=False, lanes=True))
@settings(max_examples=60, deadline=None)
def test_in_perfetto_every_end_is_of_the_innermost_begin_and_that_is_what_the_thread_is_in(thread):
    trace = trace_of([thread], 0, 200)
    shown, stack = {}, []
    for event in perfetto.events(Profile(trace)):
        if event["ph"] == "B":
            stack.append(event["name"])
        elif event["ph"] == "E":
            stack.pop()
        if "ts" in event:
            shown[round(1000 * event["ts"])] = stack[-1:]
    assert stack == []
    entered = thread.site[thread.kind == BEGIN]
    frames = innermost(thread.kind, thread.site)
    names = [[trace.sites[entered[frames.begin[frame]]].name] if frame >= 0 else [] for frame in frames.inner]
    now = []
    for time, name in dict(zip(thread.time_ns.tolist(), names, strict=True)).items():
        now = shown.get(time, now)
        assert now == name or time == thread.time_ns[-1]  # where all is left


def test_operations_that_a_program_calls_as_ours_are_its_own():
    names = ("unrecorded", "unrecorded on GPUs")
    sites = tuple(Site(name=name, operation=name, time_class="python") for name in names)
    events = [(0, BEGIN, 0), (7_000, END, 0), (7_000, BEGIN, 1), (9_000, END, 1)]
    profile = Profile(trace_of([thread_of(events)], 0, 10_000, sites))
    assert {*names} <= {share.operation for share in shares(profile.breakdown())}
    words = in_words(profile)
    assert words[0].startswith("Most of the time is unrecorded")
    assert not any("was left unrecorded" in text for text in words)


def test_what_went_on_at_the_same_time_sums_to_the_wall_time_on_the_page():
    sites = tuple(Site(name=f"site {i}", operation=f"operation {i}", time_class="python") for i in range(23))
    ends = [1_000 * i * (i + 1) for i in range(24)]
    events = [event for i in range(23) for event in [(ends[i], BEGIN, i), (ends[i + 1], END, i)]]
    profile = Profile(trace_of([thread_of(events)], 0, ends[-1], sites))
    parser = Cells("overlaps")
    parser.feed(page.render(profile, "any"))
    rows = [row for row in parser.rows if row]
    assert len(rows) == 21
    assert rows[0][0] == "operation 22"
    assert rows[-1][:4] == ["3 others", "", "12 µs", f"{12 / 552:.1%}"]
