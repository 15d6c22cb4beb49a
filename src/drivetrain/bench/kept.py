"""Runs kept in a file as they finish, so that a bench may be stopped, and go on at another quiet time.

    {"asked", "conditions", "outcome"}    a line each

A kept run stands for a new one where what was asked and the conditions are the same. The file is replaced as a whole:
a killed command loses the run in progress and no other, and several commands may add to one file. Runs under other
conditions stay in it, for commands of theirs.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from drivetrain.bench.machine import describe_commit, describe_machine, describe_versions, git
from drivetrain.core.aside import save_text
from drivetrain.core.errors import FileFormatError, InvalidInput

CODE = ("src", "cpp")
"""What of the checkout a run depends on."""
Outcome = TypeVar("Outcome")


class Kept(Generic[Outcome]):
    """Outcomes of runs by what was asked; in a file, or nowhere but in memory."""

    def __init__(
        self,
        file: Path | None = None,
        *,
        command: str,
        restored: Callable[[Any], Outcome],
        conditions: Mapping[str, Any] | None = None,
    ) -> None:
        """Read what is in the file.

        Args:
            file: Where runs are kept; made with the first one.
            command: Who keeps them, for messages.
            restored: An outcome from its JSON.
            conditions: What a run depends on beside what is asked.

        Raises:
            FileFormatError: The file is something else.
        """
        self._file, self._command, self._restored = file, command, restored
        self._conditions = _as_json(conditions or {})
        self._here: list[tuple[Any, Outcome]] = [
            (record["asked"], outcome) for record, outcome in self._load() if record["conditions"] == self._conditions
        ]

    def get(self, asked: Mapping[str, Any]) -> Outcome | None:
        """What a run came to; None where it was not made yet."""
        wanted = _as_json(asked)
        return next((outcome for other, outcome in self._here if other == wanted), None)

    def once(self, asked: Mapping[str, Any], run: Callable[[], Outcome]) -> Outcome:
        """What a run came to, which is made and kept where it was not yet."""
        outcome = self.get(asked)
        if outcome is None:
            outcome = run()
            self.add(asked, outcome)
        return outcome

    def add(self, asked: Mapping[str, Any], outcome: Outcome) -> None:
        """Keep what a run came to: a dataclass, or what JSON has."""
        self._here.append((_as_json(asked), outcome))
        if self._file is not None:
            kept = asdict(outcome) if is_dataclass(outcome) and not isinstance(outcome, type) else outcome
            record = {"asked": asked, "conditions": self._conditions, "outcome": kept}
            with locked(self._file.absolute().parent):
                records = [*(record for record, _ in self._load()), record]
                save_text(self._file, "".join(json.dumps(record) + "\n" for record in records))

    def _load(self) -> list[tuple[dict[str, Any], Outcome]]:
        """All records of the file, and their outcomes."""
        if self._file is None or not self._file.exists():
            return []
        try:
            records = [json.loads(line) for line in self._file.read_text(encoding="utf-8").splitlines()]
            return [
                ({name: record[name] for name in ("asked", "conditions", "outcome")}, self._restored(record["outcome"]))
                for record in records
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(
                f"{self._file}: expected runs of `drivetrain bench {self._command}`, a line each, got: {error!r}; name "
                "another file"
            ) from error


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Hold the folder for oneself, among all that ask."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # and with it the lock


def runs_or_reasons(
    file: Path | None, conditions: Mapping[str, Any] | None, *, command: str, restored: Callable[[Any], Outcome]
) -> "Kept[Outcome | str]":
    """Runs, or the reasons why they failed, which a file keeps as text; see `Kept`.

    Raises:
        FileFormatError: The file is something else.
    """

    def either(saved: Any) -> Outcome | str:
        return saved if isinstance(saved, str) else restored(saved)

    return Kept(file, command=command, restored=either, conditions=conditions)


def conditions(distributions: Sequence[str]) -> Mapping[str, Any]:
    """What a run of committed code depends on beside its job: code, versions, processor.

    Raises:
        InvalidInput: Runs of this code could not be known again.
    """
    return {"code": describe_code(), **surroundings(distributions)}


def surroundings(distributions: Sequence[str]) -> Mapping[str, Any]:
    """What a run depends on beside its job and the code: versions, processor."""
    machine = describe_machine()
    here = {name: machine[name] for name in ("cpu", "cores", "kernel", "python")}
    return {"versions": describe_versions(distributions), **here}


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


def describe_state(folder: Path = Path(__file__).parent) -> str:
    """The commit as `describe_commit` has it; where code or tests have changes, with a digest of what they are now.

    Runs of code that is not committed are known again by it, as long as nothing is changed further.
    """
    commit = describe_commit(folder)
    root = None if commit.startswith("wheel") else git(folder, "rev-parse", "--show-toplevel")
    if root is None:
        return commit
    where = ("-z", "--", *CODE, "tests")
    changed = git(Path(root), "diff", "HEAD", "--name-only", "--no-renames", *where) or ""
    untracked = git(Path(root), "ls-files", "--others", "--exclude-standard", *where) or ""
    names = sorted(filter(None, f"{changed}\0{untracked}".split("\0")))
    digest = hashlib.sha256()
    for file in (Path(root) / name for name in names):
        content = file.read_bytes() if file.is_file() else None  # removed, or a checkout of its own
        digest.update(repr((str(file.relative_to(root)), content)).encode())
    return f"{commit} {digest.hexdigest()[:16]}" if names else commit


def _as_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    """As it will be read back: lists for tuples."""
    return json.loads(json.dumps(fields))
