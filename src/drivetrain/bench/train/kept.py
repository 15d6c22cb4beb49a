"""Runs kept in a file as they finish, so that a comparison may be stopped, and go on at another quiet time.

    {"rival", "job", "conditions", "outcome"}    a line each

A kept run stands for a new one where rival, job and conditions are the same: the code, the versions of all, the
processor. The file is replaced as a whole: a killed command loses the run in progress and no other.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drivetrain.bench.machine import describe_machine, describe_versions, git
from drivetrain.bench.process import Rival
from drivetrain.bench.report import write_text
from drivetrain.bench.train.contenders import DISTRIBUTIONS, Runner
from drivetrain.bench.train.job import Job, Outcome
from drivetrain.core.errors import FileFormatError, InvalidInput

CODE = ("src", "cpp")
"""What of the checkout a run depends on."""

Record = Mapping[str, Any]


def describe_code(folder: Path = Path(__file__).parent) -> str:
    """The committed state of the code, whatever else the commit holds.

    Raises:
        InvalidInput: There are changes, or the code is in no checkout: runs could not be told apart.
    """
    root = git(folder, "rev-parse", "--show-toplevel")
    trees = None if root is None else git(Path(root), "rev-parse", *(f"HEAD:{name}" for name in CODE))
    if root is None or trees is None or git(Path(root), "status", "--porcelain", "--", *CODE) != "":
        raise InvalidInput(
            f"--keep: expected {' and '.join(CODE)} committed in a git checkout, so that runs of the same code are "
            "known again; commit the changes, or leave --keep out"
        )
    return " ".join(trees.split())


def conditions() -> Mapping[str, Any]:
    """What a run depends on beside its job."""
    machine = describe_machine()
    return {
        "code": describe_code(),
        "versions": describe_versions(DISTRIBUTIONS),
        **{name: machine[name] for name in ("cpu", "cores", "kernel", "python")},
    }


def load(path: Path) -> list[Record]:
    """The records of a file; none where there is no file yet.

    Raises:
        FileFormatError: The file is something else.
    """
    if not path.exists():
        return []
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for record in records:
            Outcome(**record["outcome"])
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            f"{path}: expected runs of `drivetrain bench train --keep`, a line each, got: {error!r}; name another file"
        ) from error
    return records


def remembering(run: Runner, path: Path, conditions: Mapping[str, Any]) -> Runner:
    """The same runner, which takes from the file what is there and adds what it runs."""

    def run_once(rival: Rival, job: Job) -> Outcome:
        asked = as_json({"rival": rival.module, "job": asdict(job), "conditions": conditions})
        records = load(path)
        for record in records:
            if all(record.get(name) == value for name, value in asked.items()):
                return Outcome(**record["outcome"])
        outcome = run(rival, job)
        lines = [*records, asked | {"outcome": asdict(outcome)}]
        write_text(path, "".join(json.dumps(line) + "\n" for line in lines))
        return outcome

    return run_once


def as_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    """As it will be read back: lists for tuples."""
    return json.loads(json.dumps(fields))


def runner_of(run: Runner, path: Path | None, describe: Callable[[], Mapping[str, Any]] = conditions) -> Runner:
    """The runner of a command that keeps its runs in a file; None: that does not.

    Raises:
        InvalidInput: Runs of this code could not be known again.
        FileFormatError: The file is something else.
    """
    if path is None:
        return run
    load(path)
    return remembering(run, path, describe())
