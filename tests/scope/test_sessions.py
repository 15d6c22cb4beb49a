"""Sessions record nested, recursive, threaded, forked and asynchronous programs, and survive whatever ends them."""

import asyncio
import inspect
import pickle
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from programs import alone

from drivetrain import scope
from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.scope import _native
from drivetrain.scope.sites import Site, SiteTable
from drivetrain.scope.spans import recorded
from drivetrain.scope.states import State, StateSpace
from drivetrain.scope.trace.events import BEGIN, END, STEP, THREAD_END


def entered(profile, thread=None):
    """How often each site was entered, without the recorder's own."""
    counts = Counter()
    for each in profile.trace.threads if thread is None else [thread]:
        counts.update(profile.trace.sites[site].name for site in each.site[each.kind == BEGIN].tolist())
    return {name: number for name, number in counts.items() if not name.startswith("scope:")}


def raw(profile):
    return {(row.operation, row.time_class, row.phase): row.raw_ns for row in profile.breakdown()}


def test_nested_and_recursive_operations_are_told_apart_by_the_innermost(folder):
    @scope.operation("replay")
    def recursive(depth):
        return depth and recursive(depth - 1)

    with scope.session(folder, calibrate_every=0):
        for _ in range(10):
            with scope.operation("inference"), scope.operation("mine"), scope.phase("early"):
                recursive(3)
            scope.mark_step()
    profile = scope.load(folder)
    assert entered(profile) == {"inference": 10, "mine": 10, "early": 10, "replay": 40}
    assert profile.num_steps() == 10
    assert raw(profile).keys() >= {("replay", "python", "early"), ("mine", "python", ""), ("inference", "python", "")}
    assert sum(raw(profile).values()) == profile.wall_ns
    assert profile.trace.notes == ()


def test_every_thread_has_a_time_line_of_the_whole_session(folder):
    def work(name):
        for _ in range(2000):
            with scope.operation(name):
                pass

    with scope.session(folder):
        threads = [threading.Thread(target=work, args=(f"work {i}",)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    profile = scope.load(folder)
    assert entered(profile) == {f"work {i}": 2000 for i in range(3)}
    per_thread = Counter()
    for row in profile.breakdown():
        per_thread[row.process, row.thread] += row.raw_ns
    assert len(per_thread) == 4
    assert set(per_thread.values()) == {profile.wall_ns}


def test_a_forked_child_is_followed_and_begins_in_the_operation_it_was_forked_in(folder):
    text = """
import os, sys
from drivetrain import scope
with scope.session(sys.argv[1]):
    with scope.operation("collecting"):
        if os.fork() == 0:
            with scope.operation("only in the child"):
                pass
            os._exit(0)
        os.wait()
"""
    alone(text, folder)
    profile = scope.load(folder)
    assert len(profile.trace.processes) == 2
    child = next(thread for thread in profile.trace.threads if thread.process == 1)
    assert entered(profile, child) == {"collecting": 1, "only in the child": 1}
    assert profile.trace.processes[1].parent == profile.trace.processes[0].pid
    assert f"or still running): {child.tid}." in profile.trace.notes[0]
    costs = {entry["process"]: entry for entry in profile.overhead()["costs"] if entry["instrument"] == "annotation"}
    assert costs[str(child.tid)]["num_spans"] == 1
    assert costs[str(child.tid)]["expected"] == costs[str(profile.trace.processes[0].pid)]["expected"]


def test_a_child_whose_parent_ends_at_once_as_daemons_do_is_still_the_childs_parents(folder):
    text = """
import os, sys, time
from drivetrain import scope

middle = 0

def wait_until_orphaned():  # before the recorder is told of the fork
    while os.getppid() == middle:
        time.sleep(0.001)

os.register_at_fork(after_in_child=wait_until_orphaned)
with scope.session(sys.argv[1]):
    here, there = os.pipe()
    if os.fork() == 0:
        middle = os.getpid()
        if os.fork() == 0:
            with scope.operation("only in the daemon"):
                pass
        os._exit(0)
    os.close(there)
    os.read(here, 1)
"""
    alone(text, folder)
    profile = scope.load(folder)
    first, middle, daemon = profile.trace.processes
    assert (middle.parent, daemon.parent) == (first.pid, middle.pid)
    assert None not in {row.corrected_ns for row in profile.breakdown()}


def test_after_a_kill_everything_up_to_the_last_event_is_read(folder):
    text = """
import os, signal, sys
from drivetrain import scope
with scope.session(sys.argv[1]):
    for _ in range(20_000):
        with scope.operation("a"):
            pass
    with scope.operation("b"):
        os.kill(os.getpid(), signal.SIGKILL)
"""
    assert alone(text, folder, check=False).returncode == -signal.SIGKILL
    profile = scope.load(folder)
    assert entered(profile) == {"a": 20_000, "b": 1}
    assert "not ended" in profile.trace.notes[0]
    assert sum(raw(profile).values()) == profile.wall_ns


def test_a_segment_cut_anywhere_is_read_up_to_its_last_whole_event(folder):
    with scope.session(folder):
        for _ in range(50):
            with scope.operation("a"):
                pass
    file = sorted(folder.glob("*.events"))[-1]
    whole = file.read_bytes()
    here = (len(whole) - 80) // 16
    num = scope.load(folder).trace.num_events
    for cut in (1, 15, 16, 17, 160, len(whole) - 1):
        file.write_bytes(whole[:-cut])
        left = scope.load(folder).trace.num_events
        assert left == num - min(-(-cut // 16), here)


def test_the_limit_on_disk_space_holds_and_the_report_says_what_was_dropped(folder):
    with scope.session(folder, limit_nbytes=100_000):
        for _ in range(20_000):
            with scope.operation("a"):
                pass
    profile = scope.load(folder)
    assert sum(file.stat().st_size for file in folder.glob("*.events")) <= 100_000
    dropped = profile.overhead()["num_dropped"]
    assert dropped + profile.trace.num_events >= 40_000
    (note,) = profile.trace.notes
    assert f"{dropped} events found no room" in note


def test_asynchronous_functions_and_generators_are_recorded_until_they_end(folder):
    @scope.operation("awaited")
    async def wait():
        await asyncio.sleep(0.001)
        return 5

    @scope.operation("generated")
    def generate():
        received = yield 1
        yield received

    with scope.session(folder):
        assert asyncio.run(wait()) == 5
        generator = generate()
        assert next(generator) == 1
        assert generator.send(7) == 7
        generator.close()
    profile = scope.load(folder)
    assert entered(profile) == {"awaited": 1, "generated": 1}
    assert raw(profile)["awaited", "python", ""] > 0, "while its own code runs"


def test_an_asynchronous_generator_is_recorded_until_it_ends_and_takes_what_its_caller_sends_and_throws(folder):
    closed = []

    @scope.operation("produce")
    async def produce(last):
        try:
            for number in range(last):
                try:
                    if (sent := (yield number)) is not None:
                        yield sent
                except KeyError as error:
                    yield error.args[0]
        finally:
            closed.append(last)

    async def main():
        found = [number async for number in produce(3)]
        numbers = produce(9)
        found += [await anext(numbers), await numbers.asend("sent"), await anext(numbers)]
        found += [await numbers.athrow(KeyError("thrown")), await anext(numbers)]
        with pytest.raises(ValueError, match="mine"):
            await numbers.athrow(ValueError("mine"))
        left = produce(5)
        await anext(left)
        await left.aclose()
        return found

    with scope.session(folder):
        assert asyncio.run(main()) == [0, 1, 2, 0, "sent", 1, "thrown", 2]
    assert closed == [3, 9, 5]
    assert entered(scope.load(folder))["produce"] == 3
    assert inspect.isasyncgenfunction(produce)


def test_sites_that_cannot_be_written_stop_nobody_and_the_report_says_what_is_missing(folder):
    full = SiteTable()
    full.write_to(Path("/dev/full"))
    assert [full.number(Site("a")), full.number(Site("b")), full.number(Site("a"))] == [0, 1, 0]
    with scope.session(folder), scope.operation("mine"):
        pass
    (own,) = folder.glob("*.sites")
    own.write_text("")
    profile = scope.load(folder)
    assert {row.operation for row in profile.breakdown()} <= {"other", "unrecorded"}
    assert any("did not reach the disk" in note for note in profile.notes)


def test_generators_left_out_of_order_do_no_harm(folder):
    def holding(name):
        with scope.operation(name):
            yield

    with scope.session(folder):
        first, second = holding("first"), holding("second")
        next(first)
        next(second)
        first.close()
        second.close()
    profile = scope.load(folder)
    assert entered(profile) == {"first": 1, "second": 1}
    assert sum(raw(profile).values()) == profile.wall_ns


def test_nothing_is_written_without_a_session_and_ends_without_a_begin_are_ignored(folder):
    outer = scope.operation("entered before")
    outer.__enter__()
    scope.mark_step()
    with scope.session(folder):
        outer.__exit__(None, None, None)
        inside = scope.operation("left after")
        inside.__enter__()
    inside.__exit__(None, None, None)
    (thread,) = scope.load(folder).trace.threads
    kinds = thread.kind.tolist()
    assert kinds.count(BEGIN) == kinds.count(END) + 1
    assert kinds[-1] == THREAD_END
    assert STEP not in kinds


def test_a_recorded_function_passes_for_the_function(folder):
    plain = module_function
    wrapped = scope.operation("x")(plain)
    assert (wrapped.__name__, wrapped.__doc__, wrapped.__module__) == (plain.__name__, plain.__doc__, plain.__module__)
    assert wrapped.__wrapped__ is plain
    assert inspect.signature(wrapped) == inspect.signature(plain)
    assert wrapped(1, second=4) == (1, 4)
    with pytest.raises(TypeError, match="module_function"):
        wrapped()
    with pytest.raises(ZeroDivisionError), scope.session(folder):
        scope.operation("x")(divide)(0)
    assert entered(scope.load(folder)) == {"x": 1}
    assert inspect.iscoroutinefunction(scope.operation("x")(coroutine))
    assert pickle.loads(pickle.dumps(recorded_in_module)) is recorded_in_module


def module_function(first, second=2):
    """Says so."""
    return first, second


def divide(number):
    return 1 / number


async def coroutine():
    pass


@scope.operation("module")
def recorded_in_module():
    pass


def test_what_cannot_be_recorded_or_read_is_one_clear_error(folder, tmp_path):
    with pytest.raises(InvalidInput, match="empty"):
        scope.operation("")
    with pytest.raises(TypeError, match="callable and a Span"):
        _native.Wrapped(1, _native.Span(0))
    with pytest.raises(TypeError, match="callable and a Span"):
        _native.Wrapped(print, print)
    folder.mkdir()
    (folder / "something").touch()
    with pytest.raises(InvalidInput, match="new or empty folder"), scope.session(folder):
        pass
    with scope.session(tmp_path / "one"), pytest.raises(InvalidInput, match=r"into \S+one; one session at a time: end"):
        scope.session(tmp_path / "two").__enter__()
    with pytest.raises(FileFormatError, match=r"no session\.json"):
        scope.load(folder)
    for text, what in (("{", "damaged"), ("[]", "got list"), ("", "damaged"), ("{}", "format 2")):
        (tmp_path / "one" / "session.json").write_text(text)
        with pytest.raises(FileFormatError, match=what):
            scope.load(tmp_path / "one")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("session.json", '{"format": 2}'), ("[0-9]*.json", '{"pid": 3}'), ("shared", "short")],
)
def test_a_damaged_recording_is_one_sentence(folder, pattern, text):
    with scope.session(folder), scope.operation("mine"):
        pass
    next(folder.glob(pattern)).write_text(text)
    with pytest.raises(FileFormatError, match="expected the recording of a session, got a damaged one"):
        scope.load(folder)


@pytest.mark.parametrize("entry", ['"name": "a", "phase": 3', '"name": "a", "operation": ["b"]', '"name": null'])
def test_a_site_that_is_damaged_to_something_else_than_text_is_one_sentence(folder, entry):
    with scope.session(folder), scope.operation("mine"):
        pass
    file = next(folder.glob("*.sites"))
    file.write_text(file.read_text() + f'{{"number": 0, {entry}}}\n')
    with pytest.raises(FileFormatError, match="expected a whole number and texts, got 0 and"):
        scope.load(folder)


def test_a_state_whose_site_was_damaged_to_another_name_is_one_sentence():
    space = StateSpace((Site("unrecorded", "unr3corded"),))
    with pytest.raises(FileFormatError, match=r"expected a site for .*its table of sites is damaged; record again"):
        space.code(State("unrecorded", "unrecorded", ""))


def test_two_sessions_after_one_another_are_apart(tmp_path):
    operation = scope.operation("both")
    for name in ("one", "two"):
        with scope.session(tmp_path / name), operation:
            pass
    for name in ("one", "two"):
        assert entered(scope.load(tmp_path / name)) == {"both": 1}


def test_spans_are_shared_by_name():
    assert scope.operation("same") is scope.operation("same")
    assert recorded(divide, scope.operation("same"))(2) == 0.5


def test_the_report_command_prints_and_writes_what_the_profile_says(folder, capsys, tmp_path):
    import json

    from drivetrain.cli.main import main

    with scope.session(folder), scope.operation("inference"):
        pass
    out = tmp_path / "report.json"
    assert main(["report", str(folder), "--json", str(out)]) == 0
    assert "inference" in capsys.readouterr().out
    document = json.loads(out.read_text())
    assert sum(row["raw_ns"] for row in document["rows"]) == document["wall_ns"]
    names = {"process", "thread", "operation", "class", "phase", "raw_ns", "corrected_ns", "low_ns", "high_ns"}
    assert all(set(row) == names for row in document["rows"])
    assert main(["report", str(Path("nowhere"))]) == 2
