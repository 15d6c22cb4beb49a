"""Runs whose rows also go to Weights & Biases, offline."""

import importlib.util
import json
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from whole_run import COMMAND, SMALL, read

from drivetrain.core.errors import InvalidInput, MissingExtra, RunError
from drivetrain.train import resume, train
from drivetrain.train.config import TrainConfig
from drivetrain.train.telemetry.metrics import MetricsFile

IS_INSTALLED = importlib.util.find_spec("wandb") is not None
# A fresh interpreter: the library leaves threads and a process behind until its interpreter ends.
TRAIN_AND_RESUME = """
import json, sys
from drivetrain.train import resume, train

train("dqn", "CartPole-v1", total_steps=600, wandb="tests", run_dir=sys.argv[1], **json.loads(sys.argv[2]))
resume(sys.argv[1], total_steps=1_100)
"""


def test_without_the_library_one_sentence_names_the_extra_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtra, match=r"this needs wandb, which is not installed: .*drivetrain\[wandb\]"):
        train("dqn", "CartPole-v1", wandb="tests", run_dir=str(tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.whole
@pytest.mark.skipif(IS_INSTALLED, reason="wandb is installed")
def test_the_command_line_says_the_same_in_one_line(tmp_path):
    arguments = ["train", "dqn", "CartPole-v1", "--wandb", "tests", "--run-dir", str(tmp_path / "run")]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'pip install "drivetrain[wandb]"' in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def fails(error):
    """A function that does nothing else."""

    def fail(*_):
        raise error

    return fail


@pytest.fixture
def stand_in(monkeypatch):
    """A library of this interface in place of the real one: its run, and `init`, which a test may make fail."""
    run = SimpleNamespace(id="7", define_metric=lambda *_, **__: None, log=lambda _: None, finish=lambda: None)
    library = ModuleType("wandb")
    found = {"Error": type("Error", (Exception,), {}), "Settings": lambda **_: None, "init": lambda **_: run}
    vars(library).update(found, run=run)
    monkeypatch.setitem(sys.modules, "wandb", library)
    return library


FAILURES = [ConnectionResetError("Connection lost"), RuntimeError("Connection lost"), ConnectionError()]


@pytest.mark.parametrize("error", FAILURES, ids=repr)
@pytest.mark.parametrize("where", ["log", "finish"])
def test_whatever_the_library_raises_is_told_with_its_reason_and_the_run_goes_on(tmp_path, stand_in, where, error):
    setattr(stand_in.run, where, fails(error))
    said = []
    config = TrainConfig.default("dqn", "CartPole-v1").override(wandb="tests")
    with MetricsFile(config, tmp_path, None, said.append) as metrics:
        metrics.write({"num_steps": 1})
    reason = str(error) or "ConnectionError"
    assert said == [f"Weights & Biases: {reason}; the run goes on, and rows are lost until that is mended"]
    assert json.loads(read(tmp_path / "metrics.jsonl")) == {"num_steps": 1}


@pytest.mark.parametrize("error", FAILURES, ids=repr)
def test_a_library_that_does_not_begin_is_one_sentence(tmp_path, stand_in, error):
    stand_in.init = lambda **_: fails(error)()
    config = TrainConfig.default("dqn", "CartPole-v1").override(wandb="tests")
    with pytest.raises(RunError, match=f"--wandb: {str(error) or 'ConnectionError'}; mend it, or leave --wandb out"):
        MetricsFile(config, tmp_path, None, pytest.fail)


def test_a_run_of_the_callers_own_is_neither_written_to_nor_finished(tmp_path, stand_in):
    own, told = SimpleNamespace(log=pytest.fail, finish=pytest.fail), []
    new, stand_in.run.log = stand_in.run, told.append
    stand_in.init = lambda **given: new if given.get("reinit") == "create_new" else own
    config = TrainConfig.default("dqn", "CartPole-v1").override(wandb="tests")
    with MetricsFile(config, tmp_path, None, pytest.fail) as metrics:
        metrics.write({"num_steps": 1})
    assert told == [{"num_steps": 1}]


def ended(run_dir):
    """A run that sent its rows to the project "tests", and could have gone on."""
    train("dqn", "CartPole-v1", wandb="tests", run_dir=str(run_dir), **SMALL, num_actors=0, total_steps=600)


@pytest.mark.whole
def test_a_run_goes_on_without_where_the_library_is_missing_and_stays_without(tmp_path, stand_in, monkeypatch):
    ended(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtra, match=r'drivetrain\[wandb\].*; a resumed run goes on without it by --wandb ""$'):
        resume(tmp_path / "run", total_steps=700)
    assert resume(tmp_path / "run", total_steps=700, wandb="").num_steps == 700
    assert resume(tmp_path / "run", total_steps=800).num_steps == 800
    assert TrainConfig.load(tmp_path / "run" / "config.json").run.wandb is None


@pytest.mark.whole
def test_a_run_goes_on_with_its_id_and_in_another_project_with_a_new_one(tmp_path, stand_in):
    asked = []
    stand_in.init = lambda **given: asked.append((given["project"], given["id"])) or stand_in.run
    ended(tmp_path / "run")
    resume(tmp_path / "run", total_steps=700)
    resume(tmp_path / "run", total_steps=800, wandb="others")
    resume(tmp_path / "run", total_steps=900)
    assert asked == [("tests", None), ("tests", "7"), ("others", None), ("others", "7")]
    assert json.loads(read(tmp_path / "run" / "wandb.json")) == {"project": "others", "id": "7"}


def test_a_project_without_a_name_is_refused():
    with pytest.raises(InvalidInput, match="wandb: expected the name of a project, or None, got ''"):
        TrainConfig.default("dqn", "CartPole-v1").override(wandb="")


@pytest.mark.skipif(not IS_INSTALLED, reason="needs the wandb extra")
@pytest.mark.parametrize("num_actors", [0, 1])
def test_every_row_is_there_and_a_resumed_run_goes_on_with_the_same_id(tmp_path, monkeypatch, num_actors):
    monkeypatch.setenv("WANDB_MODE", "offline")
    run_dir = tmp_path / "run"
    settings = {**SMALL, "num_actors": num_actors}
    command = [sys.executable, "-c", TRAIN_AND_RESUME, str(run_dir), json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    known = json.loads(read(run_dir / "wandb.json"))
    assert known["project"] == "tests"
    histories = sorted((run_dir / "wandb").glob("offline-run-*/*.wandb"))
    assert len(histories) == 2, "one for each part of the run"
    assert {path.name for path in histories} == {f"run-{known['id']}.wandb"}
    rows = [json.loads(line) for line in read(run_dir / "metrics.jsonl").splitlines()]
    returns = [f"{row['eval_return']:.15g}".encode() for row in rows if "eval_return" in row]
    content = b"".join(path.read_bytes() for path in histories)
    assert returns
    assert all(value in content for value in returns), "numbers are text in the library's file"
    assert content.count(b"eval_return") >= len(returns)
