"""Runs kept in a file as they are made, so that a bench that is stopped goes on where it was.

One line of JSON per run: program, tool, round, commit, what was measured.
"""

import json
from dataclasses import asdict
from pathlib import Path

from drivetrain.bench.machine import describe_commit
from drivetrain.bench.scope.held_out import HeldOut
from drivetrain.bench.scope.trial import Trial
from drivetrain.core.errors import InvalidInput

Key = tuple[str, str, int]
"""Program, tool ("alone" for none), round."""


class Kept:
    """Runs by key; a file, or nothing but memory."""

    def __init__(self, file: Path | None) -> None:
        """Read what is in the file.

        Raises:
            InvalidInput: It holds runs of another commit, or no runs at all.
        """
        self._file = file
        self._commit = describe_commit()
        self._trials: dict[Key, Trial | str] = {}
        if file is not None and file.exists():
            for number, line in enumerate(file.read_text().splitlines(), 1):
                self._read(line, number)

    def get(self, key: Key) -> Trial | str | None:
        """A run, or the reason why it failed; None where it was not made yet."""
        return self._trials.get(key)

    def add(self, key: Key, found: Trial | str) -> None:
        """Keep a run, or the reason why it failed."""
        self._trials[key] = found
        if self._file is None:
            return
        program, tool, number = key
        entry = {"program": program, "tool": tool, "round": number, "commit": self._commit}
        entry |= {"failed": found} if isinstance(found, str) else {"trial": asdict(found)}
        with self._file.open("a") as out:
            out.write(json.dumps(entry) + "\n")

    def _read(self, line: str, number: int) -> None:
        try:
            entry = json.loads(line)
            key = (entry["program"], entry["tool"], entry["round"])
            commit = entry["commit"]
        except (ValueError, KeyError, TypeError):
            raise InvalidInput(f"{self._file}:{number}: expected a kept run; choose another file for --keep") from None
        if commit != self._commit:
            raise InvalidInput(
                f"{self._file}:{number}: expected runs of this commit ({self._commit}), got one of {commit}; choose "
                "another file for --keep"
            )
        if "failed" in entry:
            self._trials[key] = entry["failed"]
            return
        inside = entry["trial"].pop("held_out")
        self._trials[key] = Trial(**entry["trial"], held_out=None if inside is None else HeldOut(**inside))
