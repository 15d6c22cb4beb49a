"""Environments that hang, fail or are interrupted while they are measured."""

import dataclasses
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from gymnasium.envs.classic_control import CartPoleEnv
from whole_run import SMALL, read

from drivetrain.core.errors import RunError
from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.experience import make_experience
from drivetrain.train.runs.requirements import describe as interface_of
from drivetrain.train.sizing import beats, worker
from drivetrain.train.sizing.beats import Beats
from drivetrain.train.sizing.choose import size
from drivetrain.train.sizing.measure import Question, ask
from live_processes import wait_until_dead


class Hanging(CartPoleEnv):
    """Has a helper that its close() would end, and never comes back from a step."""

    def __init__(self, notes):
        super().__init__()
        helper = subprocess.Popen(["sleep", "1000"])
        Path(notes, str(helper.pid)).touch()

    def step(self, action):
        time.sleep(1_000)


@pytest.mark.whole
def test_a_worker_that_does_not_come_back_is_ended_with_what_its_environments_have_started(tmp_path, monkeypatch):
    make = functools.partial(Hanging, str(tmp_path))
    config = TrainConfig.default("dqn", make).override(**SMALL | {"num_actors": 1}).resolved()
    interface = interface_of(config)
    (mine,) = helpers(tmp_path)  # of the environment that was described here
    os.kill(mine, signal.SIGKILL)

    def told(timeout_s):
        question = Question(what="acting", config=config, interface=interface, sizes=(1,), asked_by=os.getpid())
        changed = config.override(step_timeout_s=timeout_s)
        with pytest.raises(RunError) as refused:
            ask(dataclasses.replace(question, config=changed))
        return str(refused.value)

    for timeout_s in (3.0, 50.0):  # a busy machine may need the longer one to have an environment at all
        sentence = (
            f"acting could not be measured: one of its environments has not come back for {timeout_s:g} s (step_t"
        )
        assert sentence in told(timeout_s)
        if others := helpers(tmp_path) - {mine}:
            break
    assert others
    wait_until_dead(others, within_s=30)
    monkeypatch.setattr("drivetrain.train.sizing.measure._START_S", -2.9)
    assert "acting was to be measured for a moment, and has not come back for 0.1 s; give num_actors" in told(3.0)


@pytest.mark.release
@pytest.mark.usefixtures("pythons_own_interrupts", "usual_hangups")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_is_measured_ends_what_environments_have_started_too(start, tmp_path, monkeypatch, signum):
    mark = tmp_path / "helper"
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    for name, value in {"FAULT": "hang", "FAULT_STEP": "5", "FAULT_MARK": str(mark), "PYTHONPATH": path}.items():
        monkeypatch.setenv(name, value)
    what = ("sac", "faulty_envs:Faulty-v0")
    run = start("--num-actors", "auto", "--num-learners", "1", "--update-ratio", "0", what=what)
    run.wait_until(lambda: read(mark))
    run.process.send_signal(signum)
    assert run.process.communicate(timeout=60)[1] == ""
    assert run.process.returncode == 128 + signum
    wait_until_dead([int(read(mark))], within_s=30)


def helpers(folder):
    return {int(path.name) for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raise", ": .*the rod broke .*"),
        ("leave", ": its process ended with exit code 0: it said nothing"),
        ("kill", ": its process was killed by SIGKILL"),
    ],
)
def test_an_environment_that_fails_while_it_is_measured_is_said_with_the_way_around(monkeypatch, fault, said):
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.setenv("FAULT_STEP", "5")
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    config = TrainConfig.default("sac", "faulty_envs:Faulty-v0").override(num_actors="auto", update_ratio=0)
    interface = interface_of(config)
    with pytest.raises(RunError, match=rf"acting could not be measured{said}; give num_actors"):
        size(config, interface)


class Films(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (36, 36), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros((36, 36), np.uint8), {}


def test_what_is_measured_with_has_the_frames_that_the_open_windows_of_many_environments_hold():
    many = {"envs_per_actor": 900, "frame_stack": 4, "num_step": 3, "warmup_steps": 5_000, "capacity": 100_000}
    config = TrainConfig.default("dqn", Films).override(num_actors=1, **many).resolved()
    interface = interface_of(config)
    with make_experience(worker._small(config, interface), interface, shared=False) as replay:
        assert replay.writer(num_envs=900) is not None, "it would be refused"


def test_only_an_environment_that_is_turned_to_is_worked_with(monkeypatch):
    now_ns = [10**9]
    monkeypatch.setattr(beats.time, "monotonic_ns", lambda: now_ns[0])
    with tempfile.TemporaryFile() as file:
        file.truncate(Beats.NBYTES)
        worker, asking = Beats(file.fileno()), Beats(file.fileno())

        def after(seconds):
            now_ns[0] += seconds * 10**9
            return round(asking.working_s, 3)

        assert after(5) == 0, "nothing has begun"
        worker()
        assert [after(seconds) for seconds in (0, 1, 2)] == [0, 1, 3]
        worker()
        assert after(2) == 2
        worker.end()
        assert after(1) == 0
