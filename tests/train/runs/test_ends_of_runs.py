"""Whole runs whose processes are killed or fail, or that are interrupted: they go on, or drain and save."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from whole_run import COMMAND, ENDLESS, FLAGS, ONE_ACTOR, SMALL, children_of, rows_of

from drivetrain.core.errors import RunError
from drivetrain.core.fork_server import ForkServer
from drivetrain.train import train
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from live_processes import wait_until_dead

pytestmark = pytest.mark.whole


@pytest.mark.parametrize(("log", "name"), [("actor-0", "actor 0"), ("evaluator-0", "the evaluator")])
def test_a_killed_actor_or_evaluator_is_started_again_and_the_run_finishes_exactly(start, log, name):
    run = start(*FLAGS, "--total-steps", "12000")
    run.wait_until_learning()
    (pid,) = run.children(log)
    os.kill(pid, signal.SIGKILL)
    code, out, err = run.end()
    assert code == 0, err
    assert f"{name} was killed by SIGKILL" in err
    assert "0.5000 updates per step" in out


@pytest.mark.parametrize(
    ("failure", "message"),
    [("raise RuntimeError('the pole broke')", "RuntimeError: the pole broke"), ("os._exit(0)", "exit code 0")],
)
def test_a_failing_actor_is_started_again_a_few_times_and_then_its_error_ends_the_run(
    tmp_path, monkeypatch, failure, message
):
    (tmp_path / "failing_env.py").write_text(
        "import os, gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Failing(CartPoleEnv):\n"
        "    num_steps = 0\n"
        "    def step(self, action):\n"
        "        Failing.num_steps += 1\n"
        f"        if Failing.num_steps > 40: {failure}\n"
        "        return super().step(action)\n"
        "gymnasium.register('Failing-v0', Failing, max_episode_steps=100)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    done = subprocess.run(
        [*COMMAND, "train", "dqn", "failing_env:Failing-v0", "--run-dir", str(tmp_path / "other"), *FLAGS, *ONE_ACTOR],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert "4 times within a minute" in done.stderr.splitlines()[-1]
    assert ("Traceback" in done.stderr) == ("RuntimeError" in message)


def test_an_actor_that_cannot_be_started_again_ends_the_run_when_the_learner_has_saved(tmp_path, monkeypatch):
    killed_at = []

    def refuse(*_, **__):
        raise RunError("the system lets no process begin: Resource temporarily unavailable")

    def kill_the_actor(event):
        if "loss" in event.row and not killed_at:
            killed_at.append(event.row["num_steps"])
            monkeypatch.setattr(ForkServer, "begin", refuse)
            pids = [pid for server in children_of(os.getpid()) for pid in children_of(server)]
            (actor,) = [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text() == "actor 0\n"]
            os.kill(int(actor), signal.SIGKILL)

    settings = {**SMALL, "total_steps": 100_000_000, "num_actors": 1, "run_dir": str(tmp_path)}
    with pytest.raises(RunError, match=r"lets no process begin: .*; the latest checkpoint is"):
        train("dqn", "CartPole-v1", callbacks=[kill_the_actor], **settings)
    assert load_checkpoint(tmp_path)[1]["num_steps"] >= killed_at[0] > 200


def test_a_run_that_is_told_to_end_last_of_all_its_processes_as_they_begin_ends_by_that(tmp_path, monkeypatch):
    make, begin = ForkServer.__init__, ForkServer.begin

    def made(server, *given, **named):
        others = children_of(os.getpid())
        make(server, *given, **named)
        (pid,) = {*children_of(os.getpid())} - {*others}
        os.kill(int(pid), signal.SIGTERM)

    def told_to_end(*given, **named):
        monkeypatch.undo()
        process = begin(*given, **named)  # which waits until the server has imported
        os.kill(os.getpid(), signal.SIGTERM)
        return process

    monkeypatch.setattr(ForkServer, "__init__", made)
    monkeypatch.setattr(ForkServer, "begin", told_to_end)
    with pytest.raises(SystemExit) as ended:
        train("dqn", "CartPole-v1", num_actors=1, run_dir=str(tmp_path / "run"), **SMALL)
    assert ended.value.code == 128 + signal.SIGTERM


def test_a_killed_learner_ends_the_run_with_an_error_and_a_usable_checkpoint(start):
    run = start(*ENDLESS)
    run.wait_until_learning()
    run.wait_until((run.run_dir / "checkpoint" / "manifest.json").exists)  # it is written beside the first updates
    (pid,) = run.children("learner")
    os.kill(pid, signal.SIGKILL)
    code, _, err = run.end()
    assert code == 1
    assert "the learner was killed by SIGKILL" in err
    assert "checkpoint" in err
    arrays, meta = load_checkpoint(run.run_dir)
    assert meta["num_steps"] >= 200
    assert arrays["params"].size > 0


@pytest.mark.usefixtures("usual_hangups")
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupted_run_drains_and_saves(start, signum, code):
    run = start(*ENDLESS)
    run.wait_until_learning()
    run.process.send_signal(signum)
    returned, _, err = run.end()
    assert returned == code, err
    assert "Traceback" not in err
    _, meta = load_checkpoint(run.run_dir)
    assert meta["num_updates"] > 0


def test_an_interrupt_that_has_killed_the_reader_of_the_log_first_drains_and_saves_too(start):
    run = start(*ENDLESS, "--checkpoint-interval-s", "1000")
    run.wait_until_learning()
    for stream in (run.process.stdout, run.process.stderr):
        stream.close()
    run.process.send_signal(signal.SIGINT)
    assert run.end()[0] == 130
    rows = [json.loads(line) for line in (run.run_dir / "metrics.jsonl").read_text().splitlines()]
    assert load_checkpoint(run.run_dir)[1]["num_steps"] >= max(row["num_steps"] for row in rows) > 200


@pytest.mark.usefixtures("usual_hangups")
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_run_all_of_whose_processes_are_told_to_end_at_once_as_by_a_scheduler_drains_and_saves(start, signum, code):
    run = start(*ENDLESS, "--checkpoint-interval-s", "1000")
    run.wait_until_learning()
    for pid in [run.process.pid, *run.children()]:
        os.kill(pid, signum)
    returned, _, err = run.end()
    assert returned == code, err
    assert "Traceback" not in err
    assert load_checkpoint(run.run_dir)[1]["num_steps"] >= rows_of(run.run_dir)[-1]["num_steps"] > 200


def draining_with_a_stopped_learner(start):
    """A run after one Ctrl-C, and its learner, which does nothing any more."""
    run = start(*ENDLESS)
    run.wait_until_learning()
    (learner,) = run.children("learner")
    os.kill(learner, signal.SIGSTOP)
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    return run, learner


def test_a_second_interrupt_ends_a_run_at_once_even_if_nobody_drains(start):
    run, _ = draining_with_a_stopped_learner(start)
    assert run.process.poll() is None
    run.process.send_signal(signal.SIGINT)
    started = time.monotonic()
    assert run.end()[0] == 130
    assert time.monotonic() - started < 20, "a drain waits 30 s for the learner"


def test_a_second_interrupt_ends_a_run_whose_processes_take_for_ever_to_begin(start, tmp_path, monkeypatch):
    waits = "import sys, time\nif any(word.endswith('processes.launch') for word in sys.orig_argv): time.sleep(1_000)"
    (tmp_path / "sitecustomize.py").write_text(waits)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    run = start(*ENDLESS)
    run.wait_until((run.run_dir / "logs" / "learner-0.log").exists)
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert run.process.poll() is None
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(20) == 130
    assert run.end()[0] == 130


def test_a_learner_that_dies_before_it_has_saved_is_told(start):
    run, learner = draining_with_a_stopped_learner(start)
    os.kill(learner, signal.SIGKILL)
    code, _, err = run.end()
    assert code == 130
    assert "the learner was killed by SIGKILL" in err


def test_a_killed_fork_server_ends_the_run_with_an_error_and_a_usable_checkpoint(start):
    run = start(*ENDLESS)
    run.wait_until_learning()
    run.wait_until((run.run_dir / "checkpoint" / "manifest.json").exists)
    (server,) = run.children("fork-server")
    os.kill(server, signal.SIGKILL)
    wait_until_dead(run.pids[1:])
    _, err = run.process.communicate(timeout=60)
    assert run.process.returncode == 1
    assert "the learner ended with the process that begins the others, which was killed by SIGKILL" in err
    assert load_checkpoint(run.run_dir)[1]["num_steps"] >= 200
