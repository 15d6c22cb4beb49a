"""Sums of a session say what its events would, in the same space however long it lasts, and survive a kill."""

import json
import random
import signal
import time
from collections import Counter
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from browser import FITS, NUM_REQUESTS, needs_chromium, seen
from programs import alone

from drivetrain import scope
from drivetrain.core.errors import FileFormatError
from drivetrain.scope import summing
from drivetrain.scope.process import leave
from drivetrain.scope.report import totals_page
from drivetrain.scope.session import end
from drivetrain.scope.totals import Totals
from drivetrain.scope.trace.events import BEGIN
from drivetrain.scope.trace.totals import read

# SitePath and TotalsHeader of cpp/include/drivetrain/event_log_totals.hpp
PATH = np.dtype([("ns", "<i8"), ("num_entered", "<i8"), ("site", "<u4"), ("parent", "<u4"), ("others", "<u4", 2)])
HEADER_NBYTES = 96


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "sums"


def recorded(folder, work, *, name="program", **how):
    summing.create(folder)
    summing.join(folder, name=name, **how)
    try:
        work()
    finally:
        leave(folder)
        end(folder)
    return folder


def own(rows):
    return [row for row in rows if row.time_class != "profiler"]


def test_the_paths_of_a_thread_sum_to_its_time_and_inherit_from_what_is_around(folder):
    def work():
        with scope.phase("early"), scope.operation("inference"):
            for _ in range(5):
                with scope.operation("replay"):
                    pass

    _, (thread,) = read(recorded(folder, work, name="actor 3"))
    assert sum(path.ns for path in thread.paths) == thread.until_ns - thread.begin_ns
    assert (thread.name, thread.is_main, thread.has_ended) == ("actor 3", True, True)
    entered = {path.state: path.num_entered for path in thread.paths if path.site.operation}
    assert entered == {("inference", "python", "early"): 1, ("replay", "python", "early"): 5}
    totals = Totals.load([folder])
    assert totals.processes == ["actor 3"]
    assert totals.process_ns("actor 3") <= totals.wall_ns
    assert 0 < totals.added_ns < 1e6
    assert totals.num_entered == sum(row.num_entered for row in own(totals.rows))
    assert totals.notes == []


def test_sums_and_events_of_the_same_program_enter_the_same_states_as_often(folder, tmp_path):
    names = ["inference", "replay", "mine", "simulation"]

    def work():
        rng = random.Random(3)

        def generator(name):
            with scope.operation(name):
                yield

        def descend(depth):
            waiting = [generator(rng.choice(names)) for _ in range(rng.randrange(3))]
            for one in waiting:
                next(one)
            for _ in range(rng.randrange(3)):
                with scope.operation(rng.choice(names)):
                    if depth:
                        descend(depth - 1)
            for one in waiting:  # in the order in which they were entered: not as a stack
                next(one, None)

        for _ in range(20):
            descend(4)

    with scope.session(tmp_path / "events"):
        work()
    events = scope.load(tmp_path / "events").trace
    (thread,) = events.threads
    counted = Counter(events.sites[site].operation for site in thread.site[thread.kind == BEGIN].tolist())
    rows = own(Totals.load([recorded(folder, work)]).rows)
    sums = Counter({row.operation: row.num_entered for row in rows if row.operation != "other"})
    del counted[""]
    assert sums == counted
    assert sum(counted.values()) > 100


def test_a_generator_that_ends_within_what_it_began_before_is_told_alike_by_sums_and_by_events(folder, tmp_path):
    def busy():
        until = time.monotonic_ns() + 20_000_000
        while time.monotonic_ns() < until:
            pass

    @scope.operation("replay")
    def batches():
        yield 1
        yield 2

    def work():
        of = batches()
        next(of)
        with scope.phase("train"):
            for _ in of:
                busy()
            busy()
        with scope.phase("late"):
            of = batches()
            next(of)
        busy()
        of.close()

    def long(rows):
        return {(row.operation, row.phase) for row in rows if row.time_class == "python" and row.ns > 15_000_000}

    with scope.session(tmp_path / "events", calibrate_every=0):
        work()
    rows = [SimpleNamespace(ns=row.raw_ns, **asdict(row)) for row in scope.load(tmp_path / "events").breakdown()]
    found = {("replay", "train"), ("other", "train"), ("replay", "")}
    assert found <= long(rows)
    assert {state for state in long(rows) if "late" in state} == set()
    assert found <= long(Totals.load([recorded(folder, work)]).rows)


def test_a_long_session_takes_no_more_space_than_a_short_one(folder, tmp_path):
    def work(count):
        for _ in range(count):
            with scope.operation("inference"), scope.operation("replay"):
                pass

    def nbytes(path):
        return sum(file.stat().st_size for file in path.glob("*.totals"))

    assert nbytes(recorded(folder, lambda: work(1))) == nbytes(recorded(tmp_path / "long", lambda: work(20_000))) > 0


def test_paths_beyond_what_there_is_room_for_count_as_what_is_around_them_and_are_named(folder):
    def work():
        with scope.operation("inference"):
            for number in range(400):
                with scope.operation(f"mine {number}"):
                    pass
        with scope.operation("inference"):
            pass

    totals = Totals.load([recorded(folder, work)])
    assert any("found no room of their own" in note for note in totals.notes)
    (thread,) = totals.threads
    assert sum(path.ns for path in thread.paths) == thread.until_ns - thread.begin_ns
    assert {row.operation: row.num_entered for row in totals.rows}["inference"] == 2


def test_processes_and_threads_have_sums_of_their_own_and_a_killed_one_leaves_what_it_counted(folder):
    text = f"""
import os, signal, threading
from drivetrain import scope
from drivetrain.scope.summing import join
from pathlib import Path
join(Path({str(folder)!r}), name="killed")
def work(name):
    with scope.operation(name):
        pass
for _ in range(100):
    work("inference")
thread = threading.Thread(target=work, args=["replay"])
thread.start()
thread.join()
if os.fork() == 0:
    work("simulation")
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
os.kill(os.getpid(), signal.SIGKILL)
"""
    summing.create(folder)
    assert alone(text, check=False).returncode == -signal.SIGKILL
    end(folder)
    totals = Totals.load([folder])
    rows = {(row.process, row.operation): row.num_entered for row in own(totals.rows) if row.operation != "other"}
    child = next(name for name in totals.processes if not name.startswith("killed"))
    assert rows == {("killed", "inference"): 100, ("killed, other threads", "replay"): 1, (child, "simulation"): 1}
    assert any(note.startswith("Killed in session 1") for note in totals.notes)


def test_a_session_that_goes_on_is_not_taken_for_one_that_was_killed(folder):
    meanwhile = []
    totals = Totals.load([recorded(folder, lambda: meanwhile.append(Totals.load([folder])))])
    assert meanwhile[0].notes == ["Session 1 goes on: this is what its processes had spent so far."]
    assert totals.notes == []


def test_of_a_session_on_another_machine_nobody_knows_here_whether_it_was_killed(folder):
    summing.create(folder)
    summing.join(folder, name="program")
    leave(folder)
    file = folder / "session.json"
    assert Totals.load([folder]).notes == ["Session 1 goes on: this is what its processes had spent so far."]
    file.write_text(json.dumps({**json.loads(file.read_text()), "boot_id": "another machine's"}))
    (note,) = Totals.load([folder]).notes
    assert note.startswith("Session 1 goes on on another machine, or was killed: what came after the last event")


def test_where_the_space_does_not_suffice_the_program_runs_on(folder):
    def work():
        with scope.operation("inference"):
            pass

    totals = Totals.load([recorded(folder, work, limit_nbytes=100)])
    assert totals.rows == []


def test_a_folder_of_the_other_kind_is_refused_in_one_sentence(folder, tmp_path):
    recorded(folder, lambda: None)
    with pytest.raises(FileFormatError, match="expected a session of events, got one of sums"):
        scope.load(folder)
    with scope.session(tmp_path / "events"):
        pass
    with pytest.raises(FileFormatError, match="expected the folder of a session that kept sums"):
        read(tmp_path / "events")


def cut(raw):
    return raw[:200]


def below_itself(raw):
    paths = np.frombuffer(raw, PATH, int.from_bytes(raw[36:40], "little"), HEADER_NBYTES).copy()
    paths["parent"][-1] = len(paths) - 1
    return raw[:HEADER_NBYTES] + paths.tobytes()


def less_than_nothing(raw):
    paths = np.frombuffer(raw, PATH, int.from_bytes(raw[36:40], "little"), HEADER_NBYTES).copy()
    paths["ns"][1] = -1
    return raw[:HEADER_NBYTES] + paths.tobytes()


@pytest.mark.parametrize(
    ("pattern", "damage", "what"),
    [
        ("*.totals", cut, "got damaged ones"),
        ("*.totals", below_itself, "lies below path"),
        ("*.totals", less_than_nothing, "expected times of program, got"),
        ("*.sites", lambda raw: raw.replace(b"replay", b"repl\xff"), "got damaged ones"),
        ("[0-9]*.json", lambda raw: raw.replace(b'"program"', b"[1, 2]"), "names of processes that are texts"),
        ("[0-9]*.json", lambda raw: raw[:40], "expected JSON, got a damaged file"),
        ("session.json", lambda raw: raw.replace(b'"begin_ns"', b'"begin"'), "got damaged ones"),
        ("session.json", lambda raw: raw.replace(b'"end_ns": ', b'"end_ns": -'), "an end after a begin"),
    ],
)
def test_sums_that_are_damaged_are_one_sentence(folder, pattern, damage, what):
    recorded(folder, scope.operation("replay")(lambda: None))
    file = next(folder.glob(pattern))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(FileFormatError, match=what):
        Totals.load([folder])


@pytest.mark.whole
@needs_chromium
def test_a_browser_shows_the_page_on_a_small_screen_without_scrolling_sideways(folder, tmp_path):
    def work():
        for name in ("simulation", "<b>mine</b>", "replay"):
            with scope.operation(name), scope.phase("evaluation"):
                sum(range(100_000))

    totals = Totals.load([recorded(folder, work, name="actor 0")])
    text = totals_page.render(totals, "page", "facts", ["words"])
    assert "<b>mine</b>" not in text
    bars = (
        "[...document.querySelectorAll('.parts rect')].filter(bar => bar.getBoundingClientRect().width > 3).length > 2"
    )
    num_rows = "document.querySelectorAll('#spent tbody tr').length"
    assert seen(text, tmp_path, FITS, NUM_REQUESTS, bars, num_rows) == f"true,0,true,{len(totals.rows)}"


def test_an_interrupt_while_sums_begin_leaves_nothing_that_records(folder, monkeypatch):
    summing.create(folder)

    class Interrupted:
        def __init__(self, site):
            raise KeyboardInterrupt

    monkeypatch.setattr(summing._native, "Span", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        summing.join(folder, name="one")
    assert not summing._native.recording()
