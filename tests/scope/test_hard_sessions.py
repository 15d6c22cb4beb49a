"""Sessions where threads outlive them, disks are full, folders change and names are odd."""

import copy
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from programs import alone

from drivetrain import scope
from drivetrain.cli.main import main
from drivetrain.core.errors import InvalidInput
from drivetrain.scope import _native, program, summing
from drivetrain.scope.session import create, join, read_about
from drivetrain.scope.trace.events import THREAD_END

MANY = 30_000
"""Pairs of events that need a segment of the largest size, of which most is not used."""


@pytest.fixture
def lasting():
    """A thread that records `MANY` spans, then rests until it is told to go on: (wait until it rests, let it go on)."""
    rests, goes_on = threading.Event(), threading.Event()

    def work():
        many = scope.operation("many")
        for _ in range(MANY):
            with many:
                pass
        with scope.operation("resting"):
            rests.set()
            goes_on.wait()

    thread = threading.Thread(target=work)

    def begin():
        thread.start()
        rests.wait()

    def let_go_on():
        goes_on.set()
        thread.join()

    yield begin, let_go_on
    let_go_on()


def operations(folder):
    return {row.operation for row in scope.load(folder).breakdown()}


def test_a_session_is_ended_wherever_the_program_has_gone_by_then(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with scope.session("run.scope"):
        os.chdir("elsewhere")
    profile = scope.load(tmp_path / "run.scope")
    assert "end_ns" in profile.trace.about
    assert profile.notes == ()


def test_a_thread_that_goes_on_after_a_session_does_not_make_it_longer(tmp_path, lasting):
    begin, let_go_on = lasting
    with scope.session(tmp_path / "one"):
        begin()
    before = scope.load(tmp_path / "one")
    let_go_on()
    after = scope.load(tmp_path / "one")
    assert after.wall_ns == before.wall_ns
    last = after.trace.threads[1]
    assert last.kind[-1] == THREAD_END
    assert last.time_ns[-1] <= after.trace.about["end_ns"]
    assert {row.operation for row in after.breakdown()} == {"many", "resting", "other"}


OUTLIVED = """
import os, sys
from drivetrain import scope
here, there = os.pipe()
with scope.session(sys.argv[1]):
    if (child := os.fork()) == 0:
        with scope.operation("held"):
            os.write(there, b"x")
            while "end_ns" not in open(sys.argv[1] + "/session.json").read():
                pass
        with scope.operation("afterwards"):
            if (grandchild := os.fork()) == 0:
                os._exit(0)
            os.waitpid(grandchild, 0)
        os._exit(0)
    os.read(here, 1)
os.waitpid(child, 0)
"""


def test_a_forked_child_that_goes_on_after_a_session_does_not_make_it_longer(tmp_path):
    alone(OUTLIVED, tmp_path / "run.scope")
    profile = scope.load(tmp_path / "run.scope")
    about = profile.trace.about
    assert profile.wall_ns == about["end_ns"] - about["begin_ns"]
    assert [thread.process for thread in profile.trace.threads] == [0, 1]
    _, child = profile.trace.threads
    assert (child.kind[-1], child.time_ns[-1]) == (THREAD_END, about["end_ns"])
    assert {row.operation for row in profile.breakdown() if row.process == str(child.tid)} == {"held", "other"}
    assert profile.notes == ()


def test_a_process_that_begins_after_its_session_is_not_part_of_it(tmp_path):
    folder = tmp_path / "run.scope"
    with scope.session(folder):
        pass
    before = {file.name: file.stat().st_size for file in folder.iterdir()}
    path = os.pathsep.join([str(Path(program.__file__).parent / "startup"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, program.FOLDER_VARIABLE: str(folder)}
    text = "from drivetrain.scope import _native; print(_native.recording())"
    done = subprocess.run([sys.executable, "-c", text], env=environment, check=True, capture_output=True)
    assert done.stdout == b"False\n"
    assert {file.name: file.stat().st_size for file in folder.iterdir()} == before


def test_a_thread_that_outlives_a_session_takes_no_room_from_the_next_one(tmp_path, lasting):
    begin, let_go_on = lasting
    with scope.session(tmp_path / "one"):
        begin()
    own = scope.operation("own")
    with scope.session(tmp_path / "two", calibrate_every=0):
        with own:
            pass
        let_go_on()
        for _ in range(MANY):
            with own:
                pass
    two = scope.load(tmp_path / "two")
    assert two.overhead()["num_dropped"] == 0
    assert two.notes == ()
    assert two.trace.num_events > 2 * MANY


def test_threads_that_end_with_a_session_take_no_room_from_the_next_one(tmp_path):
    own = scope.operation("own")

    def work():
        for _ in range(6_000):
            with own:
                pass

    for number in range(100):  # a thread is joined before its files are finished, now and then
        with scope.session(tmp_path / f"{number}", calibrate_every=0):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        profile = scope.load(tmp_path / f"{number}")
        assert profile.trace.num_events > 12_000
        assert not any("found no room" in note for note in profile.notes)


def test_a_child_that_is_forked_after_a_session_leaves_its_files_alone(tmp_path):
    text = """
import os, sys, threading
from drivetrain import scope
entered, over = threading.Event(), threading.Event()
def work():
    with scope.operation("working"):
        entered.set()
        over.wait()
        if (child := os.fork()) == 0:
            with scope.operation("nothing"):
                pass
            os._exit(0)
        os.waitpid(child, 0)
        sizes.append({f.name: f.stat().st_size for f in os.scandir(sys.argv[1])})
sizes = []
thread = threading.Thread(target=work)
with scope.session(sys.argv[1]):
    thread.start()
    entered.wait()
before = {f.name: f.stat().st_size for f in os.scandir(sys.argv[1])}
over.set()
thread.join()
assert sizes == [before], (before, sizes)
"""
    alone(text, tmp_path / "run.scope")


def test_events_of_threads_that_had_no_room_at_all_are_counted_too(tmp_path):
    def work():
        for _ in range(100):
            with scope.operation("late"):
                pass

    with scope.session(tmp_path / "run.scope", limit_nbytes=0):
        work()
    for packed in (False, True):
        if packed:
            assert main(["report", str(tmp_path / "run.scope"), "--pack"]) == 0
        profile = scope.load(tmp_path / "run.scope")
        assert profile.overhead()["num_dropped"] >= 200
        assert f"{profile.overhead()['num_dropped']} events found no room" in profile.trace.notes[0]


@pytest.mark.parametrize("name", ["forward", "network", "fetched", "unknown", "unrecorded", "idle"])
def test_an_operation_keeps_whatever_name_it_has(tmp_path, name):
    with scope.session(tmp_path / "run.scope"), scope.operation(name), scope.operation("inside"):
        pass
    assert operations(tmp_path / "run.scope") == {name, "inside", "other"}


@pytest.mark.parametrize("name", [3, b"bytes", None, ("a", "b")])
@pytest.mark.parametrize("make", [scope.operation, scope.phase])
def test_a_name_that_is_no_text_is_refused_and_recording_goes_on(tmp_path, make, name):
    with scope.session(tmp_path / "run.scope"):
        with pytest.raises(InvalidInput, match="expected a name as text, got"):
            make(name)
        with scope.operation("mine"):
            pass
    assert "mine" in operations(tmp_path / "run.scope")


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_objects_that_hold_operations_can_be_copied_and_pickled(tmp_path, again):
    held = {"operation": scope.operation("held"), "phase": scope.phase("early")}
    with scope.session(tmp_path / "run.scope"):
        copied = again(held)
        with copied["phase"], copied["operation"]:
            pass
    rows = scope.load(tmp_path / "run.scope").breakdown()
    assert ("held", "early") in {(row.operation, row.phase) for row in rows}


def test_an_operation_that_is_pickled_is_the_same_in_a_process_that_has_other_numbers(tmp_path):
    text = """
import pickle, sys
from drivetrain import scope
scope.operation("something else")
with scope.session(sys.argv[1]), pickle.loads(bytes.fromhex(sys.stdin.read())):
    pass
"""
    alone(text, tmp_path / "run.scope", stdin=pickle.dumps(scope.operation("sent")).hex().encode())
    assert "sent" in operations(tmp_path / "run.scope")


def test_a_folder_may_have_a_name_that_is_no_text(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    with scope.session(folder), scope.operation("mine"):
        pass
    assert "mine" in operations(folder)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "taken").write_text("mine")
    for begin in (scope.session(tmp_path / "taken").__enter__, lambda: summing.create(tmp_path / "taken")):
        with pytest.raises(InvalidInput, match=r"expected a new or empty folder, and .*taken is a file; choose"):
            begin()
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"limit_nbytes": 1e9}, "a whole number of bytes up to .*, got 1000000000.0"),
        ({"limit_nbytes": -1}, "a whole number of bytes up to .*, got -1"),
        ({"limit_nbytes": 2**80}, "a whole number of bytes up to"),
        ({"calibrate_every": 2.5}, "expected 0 .never., or 2 to .* blocks, got 2.5"),
        ({"calibrate_every": 10**20}, "expected 0 .never., or 2 to .* blocks, got 1"),
        ({"calibrate_every": "10"}, "expected 0 .never., or 2 to .* blocks, got '10'"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused_and_leave_nothing(tmp_path, how, what):
    with pytest.raises(InvalidInput, match=what):
        scope.session(tmp_path / "run.scope", **how).__enter__()
    assert not (tmp_path / "run.scope").exists()


def test_numbers_may_be_numpys(tmp_path):
    with scope.session(tmp_path / "run.scope", limit_nbytes=np.int64(2**20), calibrate_every=np.int32(5)):
        pass
    assert scope.load(tmp_path / "run.scope").notes == ()


def test_arguments_of_the_program_need_not_be_text(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [Path("notebook"), 3])
    with scope.session(tmp_path / "one"):
        pass
    assert scope.load(tmp_path / "one").trace.about["argv"] == ["notebook", "3"]
    summing.create(tmp_path / "sums")
    assert read_about(tmp_path / "sums")["argv"] == ["notebook", "3"]


def test_a_session_that_is_refused_beside_another_makes_no_folder(tmp_path):
    with scope.session(tmp_path / "one"), pytest.raises(InvalidInput, match="one session at a time"):
        scope.session(tmp_path / "two").__enter__()
    with scope.session(tmp_path / "two"), scope.operation("mine"):
        pass
    assert "mine" in operations(tmp_path / "two")


def test_a_budget_that_was_not_written_is_an_error_and_no_crash(tmp_path):
    text = """
import sys
from pathlib import Path
from drivetrain.scope.session import create, join
folder = Path(sys.argv[1])
create(folder, [])
(folder / "shared").touch()
try:
    join(folder)
except OSError as error:
    print(error.filename)
"""
    done = alone(text, tmp_path / "run.scope")
    assert done.stdout.decode().strip() == str(tmp_path / "run.scope")


def test_a_session_that_cannot_begin_leaves_nothing_that_records(tmp_path):
    create(tmp_path / "one", [])
    (tmp_path / "one" / "shared").mkdir()
    with pytest.raises(IsADirectoryError):
        join(tmp_path / "one")
    assert not _native.recording()
    with scope.session(tmp_path / "two"), scope.operation("after it"):
        pass
    assert "after it" in operations(tmp_path / "two")
    assert all("after it" not in file.read_text() for file in (tmp_path / "one").glob("*.sites"))


def test_an_interrupt_while_a_session_begins_leaves_nothing_that_records(tmp_path, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("drivetrain.scope.calibration.yardstick.Yardstick.measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        scope.session(tmp_path / "one").__enter__()
    assert not _native.recording()


def test_a_disk_that_becomes_full_stops_no_program(tmp_path):
    text = """
import resource, sys
from drivetrain import scope
with scope.session(sys.argv[1]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
    with scope.operation("mine"):
        print("it ran")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
    done = alone(text, tmp_path / "run.scope")
    assert done.stdout.decode().strip() == "it ran"
    assert any("was not ended" in note for note in scope.load(tmp_path / "run.scope").notes)
    assert not list((tmp_path / "run.scope").glob("session.json.*"))


def test_a_disk_that_is_full_before_a_session_is_one_error_that_names_the_file(tmp_path):
    text = """
import resource, sys
from drivetrain import scope
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    with scope.session(sys.argv[1]):
        print("it ran")
except OSError as error:
    print(error.filename)
"""
    done = alone(text, tmp_path / "run.scope")
    assert done.stdout.decode().strip() == str(tmp_path / "run.scope" / "session.json")
    assert list((tmp_path / "run.scope").iterdir()) == []


def test_profile_says_in_one_line_that_its_folder_cannot_be_written(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print('it ran')")
    folder = tmp_path / "run.scope"
    text = f"""
import resource, sys
from drivetrain.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
sys.exit(main(["profile", "-o", sys.argv[1], {str(script)!r}]))
"""
    done = alone(text, folder, check=False)
    assert done.returncode == 2
    assert done.stderr.decode() == f"drivetrain: error: {folder / 'session.json'}: File too large\n"
