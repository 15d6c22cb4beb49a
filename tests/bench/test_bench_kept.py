"""`drivetrain bench train --keep`: what was run is not run again, unless it would be another run."""

from dataclasses import replace

import pytest

from drivetrain.bench.machine import git
from drivetrain.bench.process import Rival
from drivetrain.bench.train import kept
from drivetrain.bench.train.job import Job, Outcome
from drivetrain.bench.train.kept import describe_code, load, remembering, runner_of
from drivetrain.bench.train.plan import SETTINGS
from drivetrain.core.errors import FileFormatError, InvalidInput

JOB = Job(kind="fixed", algo="sac", env="Pendulum-v1", seed=1, total_steps=300, settings=SETTINGS["sac", "Pendulum-v1"])
OURS = Rival(name="ours", module="ours", requires=(), install="")
HERE = {"code": "1", "versions": {"jax": "1"}}


@pytest.fixture
def ran():
    return []


@pytest.fixture
def run(ran):
    def run(rival, job):
        ran.append((rival.module, job.seed, job.threads))
        return Outcome(cpu_s=len(ran), wall_s=0.5, import_cpu_s=0.1, num_steps=300, num_updates=44, details={"a": [1]})

    return run


def test_what_is_in_the_file_is_not_run_again(run, ran, tmp_path):
    path = tmp_path / "runs.jsonl"
    first = remembering(run, path, HERE)(OURS, JOB)
    again = remembering(run, path, HERE)(OURS, JOB)
    assert again == first
    assert ran == [("ours", 1, 1)]


@pytest.mark.parametrize(
    ("rival", "job", "conditions"),
    [
        (replace(OURS, module="other"), JOB, HERE),
        (OURS, replace(JOB, seed=2), HERE),
        (OURS, replace(JOB, threads=None), HERE),
        (OURS, JOB, {**HERE, "code": "2"}),
        (OURS, JOB, {**HERE, "versions": {"jax": "2"}}),
    ],
)
def test_another_rival_job_code_or_version_is_another_run(run, ran, tmp_path, rival, job, conditions):
    path = tmp_path / "runs.jsonl"
    remembering(run, path, HERE)(OURS, JOB)
    remembering(run, path, conditions)(rival, job)
    assert len(ran) == len(load(path)) == 2


def test_a_file_of_something_else_is_refused_before_anything_runs(run, ran, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text('{"format": "drivetrain-learning"}\n')
    with pytest.raises(FileFormatError, match="expected runs of `drivetrain bench train --keep`"):
        runner_of(run, path, lambda: HERE)
    assert ran == []


def test_without_a_file_the_runner_is_the_runner(run):
    assert runner_of(run, None) is run


def test_the_code_is_known_by_its_trees_and_changes_of_it_are_refused(tmp_path, monkeypatch):
    for name in kept.CODE:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    commit = ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a")
    with pytest.raises(InvalidInput, match="in a git checkout"):
        describe_code(tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, *commit)
    before = describe_code(tmp_path / "src")
    (tmp_path / "page").write_text("of results")
    git(tmp_path, "add", ".")
    git(tmp_path, *commit)
    assert describe_code(tmp_path / "src") == before
    (tmp_path / "src" / "a").write_text("2")
    with pytest.raises(InvalidInput, match="commit the changes"):
        describe_code(tmp_path / "src")
