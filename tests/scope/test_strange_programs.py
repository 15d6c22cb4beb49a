"""Programs that replace themselves, close what they do not know, or define simulators unusually, are told right."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from programs import entered, profiled, profiled_text

from drivetrain import scope
from drivetrain.cli.main import main
from drivetrain.scope import program
from drivetrain.scope.notes import read_notes
from drivetrain.scope.process import boot_id
from drivetrain.scope.session import create

REPLACED = """
import os, sys
from drivetrain import scope

with scope.operation(sys.argv[1]):
    print(sys.argv[1], flush=True)
if sys.argv[1] == "first":
    with scope.operation("only in the first"):
        os.execv(sys.executable, [sys.executable, __file__, "second"])
os._exit(3)
"""


def test_a_process_that_becomes_another_program_is_two_processes_of_one_pid(folder, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(REPLACED)
    done = profiled(folder, script, "first", check=False)
    assert (done.returncode, done.stdout) == (3, b"first\nsecond\n")
    assert {name: entered(folder)[name] for name in ("first", "second", "only in the first")} == {
        "first": 1,
        "second": 1,
        "only in the first": 1,
    }
    profile = scope.load(folder)
    first, second = profile.trace.processes
    assert first.pid == second.pid
    assert [process["name"] for process in profile.as_json()["processes"]] == [f"{first.pid}", f"{first.pid} (2)"]
    operations = {
        name: {row.operation for row in profile.breakdown() if row.process == name}
        for name in profile.trace.process_names
    }
    assert "first" in operations[f"{first.pid}"]
    assert "second" in operations[f"{first.pid} (2)"]
    assert "second" not in operations[f"{first.pid}"]
    assert main(["report", str(folder), "--html", str(tmp_path / "page.html")]) == 0
    assert f"<li><b>{first.pid} (2)</b>" in (tmp_path / "page.html").read_text()
    (note,) = profile.notes
    assert f": {first.pid}, {first.pid} (2). What came after the last event of each" in note


def test_a_python_program_that_is_started_behind_a_function_of_its_parent_is_recorded(folder):
    text = """
import os, subprocess, sys
code = "from drivetrain import scope\\nwith scope.operation('in the child'): pass"
subprocess.run([sys.executable, "-c", code], check=True, preexec_fn=os.setsid)
"""
    profiled_text(folder, text)
    assert entered(folder)["in the child"] == 1


def test_a_program_that_closes_all_descriptors_keeps_the_files_it_opens_then(folder, tmp_path):
    text = f"""
import os, threading
from drivetrain import scope

def work():
    with scope.operation("work"):
        pass

def files():
    return [open(os.path.join({str(tmp_path)!r}, f"mine-{{number}}"), "w+b", buffering=0) for number in range(20)]

work()
os.closerange(3, 256)  # as daemons do
mine = files()
for file in mine:
    file.write(b"x" * 100_000)
thread = threading.Thread(target=work)
thread.start()
thread.join()
for _ in range(30_000):  # several segments
    work()
for file in mine:
    file.write(b"y")
    assert os.fstat(file.fileno()).st_size == 100_001
"""
    profiled_text(folder, text)
    assert {file.stat().st_size for file in tmp_path.glob("mine-*")} == {100_001}
    assert entered(folder)["work"] == 30_002


@pytest.mark.release
def test_a_program_may_have_more_threads_than_files_open(folder):
    text = """
import os, resource, threading
from drivetrain import scope

most = max(map(int, os.listdir("/proc/self/fd"))) + 20  # whoever began it may have left some open
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
all_work = threading.Barrier(150)

def work():
    with scope.operation("work"):
        all_work.wait()

threads = [threading.Thread(target=work) for _ in range(150)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with open("/dev/null") as _:
    pass
"""
    profiled_text(folder, text)
    assert entered(folder)["work"] == 150


def test_programs_that_begin_in_the_same_second_have_folders_of_their_own(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda form: "20990101-000000")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    Path("program.py").write_text("print('ran')")
    assert [main(["profile", "program.py"]) for _ in range(2)] == [0, 0]
    assert sorted(folder.name for folder in Path("profiles").iterdir()) == ["20990101-000000", "20990101-000000-2"]
    assert capfd.readouterr().out == "ran\nran\n"


def test_the_exit_code_is_the_programs_also_where_the_report_cannot_be_made(folder, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(scope, "load", lambda folder: 1 / 0)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    script = tmp_path / "program.py"
    script.write_text("import sys; sys.exit(7)")
    assert main(["profile", "-o", str(folder), str(script)]) == 7
    assert capfd.readouterr().err == "drivetrain: the report failed: ZeroDivisionError: division by zero\n"


MIXED = """
import gymnasium

class Stepping:  # no environment by itself
    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}

class Mixed(Stepping, gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)

class Wraps:
    def step(self, action):
        return self.env.step(action)

class Mapped(Wraps, gymnasium.Wrapper):
    pass

env = Mapped(gymnasium.wrappers.TimeLimit(Mixed(), 100))
env.reset()
for _ in range(20):
    env.step(0)
assert Mixed.step is Stepping.step
"""


def test_a_simulator_whose_step_is_defined_by_a_class_beside_it_is_found(folder):
    pytest.importorskip("gymnasium")
    profiled_text(folder, MIXED)
    counts = entered(folder)
    assert counts["Stepping.step"] == counts["wrapper step"] == 20
    assert counts["Stepping.reset"] == 1
    assert scope.load(folder).num_steps() == 20


BOUND_DIFFERENTLY = """
import functools, inspect, gymnasium

class Static(gymnasium.Env):
    @staticmethod
    def step(action):
        return 0, 0.0, False, False, {}

class Partial(gymnasium.Env):
    def _step(self, twice, action):
        return 0, twice, False, False, {}
    step = functools.partialmethod(_step, 2.0)

class Remembers(gymnasium.Env):
    @functools.lru_cache
    def step(self, action):
        return 0, 0.0, False, False, {}

class OfClass(gymnasium.Env):
    @classmethod
    def step(cls, action):
        return 0, cls.__name__, False, False, {}

assert type(inspect.getattr_static(Static, "step")) is staticmethod
assert type(inspect.getattr_static(Partial, "step")) is functools.partialmethod
envs = Static(), Partial(), Remembers(), OfClass()
for _ in range(10):
    assert [env.step(1)[1] for env in envs] == [0.0, 2.0, 0.0, "OfClass"]
assert Static.step(1)[1] == 0.0 and OfClass.step(1)[1] == "OfClass"
assert Remembers.step.cache_info().hits == 9 and Remembers.step.cache_parameters()["maxsize"] == 128
"""


def test_a_step_that_is_static_partial_of_the_class_or_remembered_is_found_and_stays_what_it_is(folder):
    pytest.importorskip("gymnasium")
    profiled_text(folder, BOUND_DIFFERENTLY)
    counts = entered(folder)
    assert [counts[f"{name}.step"] for name in ("Static", "Partial", "Remembers", "OfClass")] == [11, 10, 10, 11]


@pytest.mark.release
@pytest.mark.parametrize("way", ["at once", "apart"])
def test_envpools_simulators_are_found_whether_they_are_stepped_at_once_or_send_and_receive(folder, way):
    pytest.importorskip("envpool", reason="needs EnvPool: pip install envpool")
    text = f"""
import envpool, numpy as np
env = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=2, seed=0)
env.reset()
actions = np.zeros(2, np.int64)
for _ in range(10):
    if {way == "at once"}:
        env.step(actions)
    else:
        env.send(actions)
        env.recv()
"""
    profiled_text(folder, text)
    profile = scope.load(folder)
    assert not profile.notes
    assert profile.num_steps() == 10
    assert entered(folder)["EnvPool"] == 1 + (10 if way == "at once" else 20)
    assert {row.time_class for row in profile.breakdown() if row.operation == "simulation"} == {"simulator"}


def test_modules_beside_a_program_hide_those_of_the_standard_library_as_ever(folder, tmp_path):
    (tmp_path / "platform.py").write_text("mine = True")
    (tmp_path / "json").mkdir()  # no module
    (tmp_path / "json" / "data.txt").touch()
    (tmp_path / "threading.txt").touch()
    text = "import json, platform, threading; print(platform.mine, json.loads('3'), threading.main_thread().name)"
    assert profiled_text(folder, text).stdout == b"True 3 MainThread\n"
    assert not scope.load(folder).notes


def test_a_process_on_another_machine_is_not_recorded_by_a_clock_that_is_not_the_sessions(folder):
    create(folder, [])
    file = folder / "session.json"
    assert json.loads(file.read_text())["boot_id"] == boot_id()
    file.write_text(json.dumps({**json.loads(file.read_text()), "boot_id": "another machine's"}))
    path = os.pathsep.join([str(Path(program.__file__).parent / "startup"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, program.FOLDER_VARIABLE: str(folder)}
    text = "from drivetrain.scope import _native; print(_native.recording())"
    done = subprocess.run([sys.executable, "-c", text], env=environment, check=True, capture_output=True)
    assert done.stdout == b"False\n"
    assert not list(folder.glob("*.events"))
    (note,) = read_notes(folder)
    assert "it runs on another machine, whose clock is not the session's" in note


SUBINTERPRETERS = """
try:
    import _interpreters as interpreters
except ImportError:  # up to Python 3.12
    import _xxsubinterpreters as interpreters
for _ in range(2):
    one = interpreters.create()
    interpreters.run_string(one, "import sys; sys.stdout.write('inside ')")
    interpreters.destroy(one)
from drivetrain import scope
with scope.operation("after"):
    print("outside")
"""


def test_a_process_with_subinterpreters_is_captured_and_the_report_says_what_of_them_is_not(folder):
    assert profiled_text(folder, SUBINTERPRETERS).stdout == b"inside inside outside\n"
    profile = scope.load(folder)
    (note,) = profile.notes
    (process,) = profile.trace.processes
    assert note == f"Process {process.pid}: what its subinterpreters did counts as the code around their calls."
    assert entered(folder)["after"] == 1
