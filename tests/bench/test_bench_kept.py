"""Runs that a bench keeps: what was run is not run again, unless it would be another run."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from drivetrain.bench import kept
from drivetrain.bench.kept import Kept, describe_code, describe_state
from drivetrain.bench.machine import describe_commit, git
from drivetrain.core.aside import save_text
from drivetrain.core.errors import FileFormatError, InvalidInput

HERE = {"code": "1", "versions": {"jax": "1"}}
COMMIT = ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a")
ASKED = {"rival": "ours", "job": {"seed": 1, "threads": None, "hidden": (64, 64)}}


def opened(path, conditions=HERE):
    return Kept(path, command="train", restored=lambda saved: {"cpu_s": saved["cpu_s"]}, conditions=conditions)


def test_what_was_kept_comes_back_as_it_was_in_the_same_command_and_in_a_later_one(tmp_path):
    for path in (tmp_path / "runs.jsonl", None):
        runs = opened(path)
        assert runs.get(ASKED) is None
        runs.add(ASKED, {"cpu_s": 1.5})
        assert runs.get(ASKED) == {"cpu_s": 1.5}
    assert opened(tmp_path / "runs.jsonl").get(ASKED) == {"cpu_s": 1.5}


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
    opened(path).add(ASKED, {"cpu_s": 1.5})
    other = opened(path, conditions)
    assert other.get(asked) is None
    other.add(asked, {"cpu_s": 2.5})
    assert opened(path, conditions).get(asked) == {"cpu_s": 2.5}
    assert opened(path).get(ASKED) == {"cpu_s": 1.5}


def test_commands_that_add_at_the_same_time_lose_none(tmp_path, monkeypatch):
    path = tmp_path / "runs.jsonl"

    def slowly(*file_and_text):
        time.sleep(0.002)
        save_text(*file_and_text)

    def add(who):
        runs = opened(path, {"code": who})
        for number in range(10):
            runs.add({"number": number}, {"cpu_s": 1.5})

    monkeypatch.setattr(kept, "save_text", slowly)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(add, "12"))
    assert len(path.read_text().splitlines()) == 20


def test_two_commands_that_keep_runs_in_one_file_lose_none(tmp_path):
    path = tmp_path / "runs.jsonl"
    one, two = opened(path), opened(path, {"code": "2"})
    one.add(ASKED, {"cpu_s": 1.5})
    two.add(ASKED, {"cpu_s": 2.5})
    assert opened(path).get(ASKED) == {"cpu_s": 1.5}
    assert opened(path, {"code": "2"}).get(ASKED) == {"cpu_s": 2.5}


@pytest.mark.parametrize(
    "text", ['{"format": "drivetrain-learning"}', "[1", '{"asked": {}, "conditions": {}, "outcome": 3}']
)
def test_a_file_of_something_else_is_refused_and_stays_as_it_is(tmp_path, text):
    path = tmp_path / "runs.jsonl"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="expected runs of `drivetrain bench train`"):
        opened(path)
    assert path.read_text() == text


def make_code(folder, monkeypatch):
    for name in kept.CODE:
        (folder / name).mkdir()
        (folder / name / "machine.py").write_text("1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(folder / "none"))


def test_the_code_is_known_by_its_trees_and_changes_of_it_are_refused(tmp_path, monkeypatch):
    make_code(tmp_path, monkeypatch)
    with pytest.raises(InvalidInput, match="in a git checkout"):
        describe_code(tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, *COMMIT)
    before = describe_code(tmp_path / "src")
    (tmp_path / "page").write_text("of results")
    git(tmp_path, "add", ".")
    git(tmp_path, *COMMIT)
    assert describe_code(tmp_path / "src") == before
    (tmp_path / "src" / "machine.py").write_text("2")
    with pytest.raises(InvalidInput, match="commit the changes"):
        describe_code(tmp_path / "src")


def test_states_of_the_code_that_were_not_committed_are_told_apart_and_known_again(tmp_path, monkeypatch):
    make_code(tmp_path, monkeypatch)
    src = tmp_path / "src"
    assert describe_state(src) == describe_commit(src)  # outside a checkout
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, *COMMIT)
    clean = describe_state(src)
    assert clean == describe_commit(src)

    def state():
        assert describe_state(src) == describe_state(src)
        return describe_state(src)

    states = [clean]
    for content in (b"2", b"3", b"\xff"):
        (src / "machine.py").write_bytes(content)
        states.append(state())
    git(tmp_path, "add", ".")
    assert state() == states[-1]
    (src / "new.py").write_text("1")
    states.append(state())
    (src / "new.py").write_text("2")
    states.append(state())
    (tmp_path / "cpp" / "machine.py").unlink()
    states.append(state())
    assert len(set(states)) == len(states)
    assert all(one.startswith(clean) for one in states)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "gpu.json").write_text("1")
    assert state() == states[-1]
    git(tmp_path, "reset", "-q", "--hard")
    (src / "new.py").unlink()
    assert state() == clean
