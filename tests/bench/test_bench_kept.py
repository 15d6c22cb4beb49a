"""Runs that a bench keeps: what was run is not run again, unless it would be another run."""

import pytest

from drivetrain.bench import kept
from drivetrain.bench.kept import Kept, describe_code
from drivetrain.bench.machine import git
from drivetrain.core.errors import FileFormatError, InvalidInput

HERE = {"code": "1", "versions": {"jax": "1"}}
ASKED = {"rival": "ours", "job": {"seed": 1, "threads": None, "hidden": (64, 64)}}


def opened(path, conditions=HERE):
    return Kept(path, command="train", restored=lambda saved: [saved["cpu_s"]], conditions=conditions)


def test_what_was_kept_comes_back_as_it_was_in_the_same_command_and_in_a_later_one(tmp_path):
    for path in (tmp_path / "runs.jsonl", None):
        runs = opened(path)
        assert runs.get(ASKED) is None
        runs.add(ASKED, [1.5], {"cpu_s": 1.5})
        assert runs.get(ASKED) == [1.5]
    assert opened(tmp_path / "runs.jsonl").get(ASKED) == [1.5]


@pytest.mark.parametrize(
    ("asked", "conditions"),
    [
        (ASKED | {"rival": "other"}, HERE),
        (ASKED | {"job": {"seed": 2, "threads": None, "hidden": (64, 64)}}, HERE),
        (ASKED | {"job": {"seed": 1, "threads": 1, "hidden": (64, 64)}}, HERE),
        ({"rival": "ours"}, HERE),
        (ASKED, HERE | {"code": "2"}),
        (ASKED, HERE | {"versions": {"jax": "2"}}),
        (ASKED, None),
    ],
)
def test_something_else_that_is_asked_other_code_or_another_version_is_another_run_and_both_are_kept(
    tmp_path, asked, conditions
):
    path = tmp_path / "runs.jsonl"
    opened(path).add(ASKED, [1.5], {"cpu_s": 1.5})
    other = opened(path, conditions)
    assert other.get(asked) is None
    other.add(asked, [2.5], {"cpu_s": 2.5})
    assert opened(path, conditions).get(asked) == [2.5]
    assert opened(path).get(ASKED) == [1.5]


def test_two_commands_that_keep_runs_in_one_file_lose_none(tmp_path):
    path = tmp_path / "runs.jsonl"
    one, two = opened(path), opened(path, {"code": "2"})
    one.add(ASKED, [1.5], {"cpu_s": 1.5})
    two.add(ASKED, [2.5], {"cpu_s": 2.5})
    assert opened(path).get(ASKED) == [1.5]
    assert opened(path, {"code": "2"}).get(ASKED) == [2.5]


@pytest.mark.parametrize(
    "text", ['{"format": "drivetrain-learning"}', "[1", '{"asked": {}, "conditions": {}, "outcome": 3}']
)
def test_a_file_of_something_else_is_refused_and_stays_as_it_is(tmp_path, text):
    path = tmp_path / "runs.jsonl"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="expected runs of `drivetrain bench train`"):
        opened(path)
    assert path.read_text() == text


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
