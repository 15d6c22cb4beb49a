"""One rival in a fresh process: job in, outcome out, failures in one line."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from drivetrain.bench.process import Rival, environment_of, kill, last_words, launch
from drivetrain.bench.train.job import Job, Outcome
from drivetrain.bench.train.run import run_rival
from drivetrain.bench.train.settings import DqnSettings
from drivetrain.core.errors import RunError
from live_processes import wait_until_dead

JOB = Job(kind="fixed", env="CartPole-v1", seed=3, total_steps=10, settings=DqnSettings(hidden=(8,)))
ANSWER = """
import os, sys, tempfile
from pathlib import Path
from drivetrain.bench.train.job import Job, Outcome

job = Job.load(Path(sys.argv[1]))
sum(range(3_000_000))
details = {"folder": os.listdir(), "threads": os.environ.get("OMP_NUM_THREADS")}
details["keeps_to_it"] = tempfile.gettempdir() == os.getcwd()
Outcome(
    cpu_s=1.0, wall_s=2.0, import_cpu_s=0.5, num_steps=job.total_steps, num_updates=job.seed, details=details
).save(Path(sys.argv[2]))
"""


@pytest.fixture
def make_rival(tmp_path, monkeypatch):
    def make(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        return Rival(name="peer", module=name, requires=(), install="pip install peer")

    return make


def test_a_job_and_an_outcome_come_back_from_their_files_as_they_were(tmp_path):
    JOB.save(tmp_path / "job.json")
    assert Job.load(tmp_path / "job.json") == JOB
    outcome = Outcome(cpu_s=1.0, wall_s=2.0, import_cpu_s=0.0, num_steps=1, num_updates=2, reached=True)
    outcome.save(tmp_path / "outcome.json")
    assert Outcome.load(tmp_path / "outcome.json") == outcome


def test_a_rival_gets_its_job_and_answers(make_rival):
    outcome = run_rival(make_rival("answering", ANSWER), JOB)
    assert (outcome.num_steps, outcome.num_updates) == (10, 3)
    assert outcome.details["threads"] == "1"
    assert outcome.details["keeps_to_it"]
    assert sorted(outcome.details["folder"]) == ["job.json", "log.txt"]
    assert outcome.process_cpu_s is not None
    assert outcome.process_cpu_s > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise SystemExit('it is broken')", "peer ended with code 1: it is broken"),
        ("print('first'); print('last')", "peer ended with code 0: last"),
        ("", "peer ended with code 0: no output"),
    ],
)
def test_a_rival_without_an_outcome_is_an_error_in_one_line(make_rival, text, message):
    with pytest.raises(RunError, match=f"^{message}$"):
        run_rival(make_rival("failing", text), JOB)


def test_a_rival_that_hangs_is_ended_with_its_children(make_rival, tmp_path):
    pid_file = tmp_path / "pid"
    text = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    for timeout_s in (2.0, 10.0, 60.0):  # on a busy machine the rival may not get as far in two seconds
        with pytest.raises(RunError, match=f"longer than {timeout_s:.0f} s"):
            run_rival(make_rival("hanging", text), JOB, timeout_s=timeout_s)
        if pid_file.exists() and pid_file.read_text():
            break
    wait_until_dead([pid_file.read_text()])  # the kernel takes a moment


def test_the_children_of_a_rival_that_has_ended_itself_are_ended_too(make_rival, tmp_path):
    text = (
        "import subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True)\n"
    )
    process = launch(make_rival("leaves_one", text), [], folder=tmp_path)
    assert process.wait(60) == 0
    kill(process)
    wait_until_dead([last_words(tmp_path)])


BENCH = """
import sys
from drivetrain.bench.process import Rival
from drivetrain.bench.train import command
from drivetrain.cli.main import main

rival = Rival(name="ours", module="goes_on", requires=(), install="")
command.make_report = lambda options, words, run: run(rival, options.plan().fixed_job(1))
sys.exit(main(["bench", "train", "--quick"]))
"""
GOES_ON = """
import os, time
from pathlib import Path
from drivetrain.bench.train.peers.entry import main

def run(job, watch):
    Path(os.environ["PID_FILE"]).write_text(str(os.getpid()))
    time.sleep(600)

main(run)
"""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_rival_goes_away_with_a_bench_that_is_ended(tmp_path, signum):
    (tmp_path / "goes_on.py").write_text(GOES_ON)
    pid_file, folder = tmp_path / "pid", tmp_path / "tmp"
    folder.mkdir()
    path = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": path, "PID_FILE": str(pid_file)}
    bench = subprocess.Popen([sys.executable, "-P", "-c", BENCH], env=environment, stdout=subprocess.DEVNULL)
    while not (pid_file.exists() and pid_file.read_text()):
        assert bench.poll() is None
        time.sleep(0.01)
    bench.send_signal(signum)
    assert bench.wait(60) == (-signum if signum == signal.SIGKILL else 128 + signum)
    wait_until_dead([pid_file.read_text()])
    assert signum == signal.SIGKILL or not any(folder.iterdir())


LEAVING = """
import multiprocessing, os, sys, time
from pathlib import Path

lock = multiprocessing.get_context("spawn").Lock()
Path(sys.argv[1]).write_text("/dev/shm/sem." + lock._semlock.name.lstrip("/"))
time.sleep(600)
"""


def test_the_named_semaphores_of_a_rival_that_is_killed_are_removed(make_rival, tmp_path):
    said = tmp_path / "semaphore"
    process = launch(make_rival("leaving", LEAVING), [str(said)], folder=tmp_path)
    while not (said.exists() and said.read_text()):
        assert process.poll() is None, last_words(tmp_path)
        time.sleep(0.01)
    semaphore = Path(said.read_text())
    assert semaphore.exists()
    kill(process)
    assert not semaphore.exists()


def test_threads_are_pinned_or_left_alone_and_nobody_has_a_compilation_cache():
    inherited = {"OMP_NUM_THREADS": "7", "HOME": "home"}
    one = environment_of(1, inherited)
    assert (one["OMP_NUM_THREADS"], one["PJRT_NPROC"], one["HOME"]) == ("1", "1", "home")
    free = environment_of(None, inherited)
    assert "OMP_NUM_THREADS" not in free
    assert one["JAX_ENABLE_COMPILATION_CACHE"] == free["JAX_ENABLE_COMPILATION_CACHE"] == "false"


def test_a_rival_has_variables_of_its_own_beside_those_of_all(make_rival, tmp_path):
    rival = make_rival("shows", "import os; print(os.environ['MINE'], os.environ['OMP_NUM_THREADS'])")
    process = launch(replace(rival, variables=(("MINE", "yes"),)), [], folder=tmp_path)
    assert process.wait(60) == 0
    assert last_words(tmp_path) == "yes 1"


def test_a_rival_that_is_not_installed_is_named_with_its_remedy():
    needed = ("json", "no_such_module", "none.part")
    absent = Rival(name="peer", module="m", requires=needed, install="pip install peer")
    missing = absent.missing()
    assert missing is not None
    assert (missing.name, missing.reason) == ("peer", "not installed: no_such_module, none.part")
    assert missing.remedy == "pip install peer"
    assert Rival(name="here", module="m", requires=("json",), install="").missing() is None
