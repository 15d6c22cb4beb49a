"""The parts of `drivetrain bench gpu`, in order of what a short loan of a GPU should give first, and what is done.

    Part -> run(folder, limit_s) -> Found -> FOLDER/parts.json, as soon as it is there

A second command in the same folder goes on with what is left, so that a loan may be cut into commands.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from drivetrain.bench.machine import describe_commit
from drivetrain.bench.report import Case, Skipped, Target, write_json
from drivetrain.core.errors import InvalidInput, RunError

FILE = "parts.json"


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a part came to."""

    cases: Sequence[Case] = ()
    skipped: Sequence[Skipped] = ()


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something that is measured by itself.

    Attributes:
        name: On the command line.
        most_s: How long it may take; it is not begun with less time left.
        run: Does it, in a folder that stays, within so many seconds.
        missing: Why it cannot run here; empty where it can.
    """

    name: str
    most_s: float
    run: Callable[[Path, float], Found]
    missing: Callable[[], str] = lambda: ""


@dataclass
class Done:
    """Parts that were done in a folder, by name; kept there."""

    folder: Path
    found: dict[str, Found] = field(default_factory=dict[str, Found])

    def __post_init__(self) -> None:
        """Read what is there.

        Raises:
            InvalidInput: It is of another commit, or not of this bench.
        """
        file = self.folder / FILE
        if not file.exists():
            return
        try:
            document: Any = json.loads(file.read_text())
            commit = document["commit"]
            self.found = {name: _restored(entry) for name, entry in document["parts"].items()}
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{file}: expected parts of `drivetrain bench gpu`, got {error!r}; remove it") from error
        if commit != describe_commit():
            raise InvalidInput(
                f"{file}: expected parts of this commit ({describe_commit()}), got those of {commit}; choose another "
                "--folder"
            )

    def add(self, name: str, found: Found) -> None:
        """Keep what a part came to."""
        self.found[name] = found
        parts = {name: asdict(found) for name, found in self.found.items()}
        write_json(self.folder / FILE, {"commit": describe_commit(), "parts": parts})


def carry_out(parts: Sequence[Part], done: Done, limit_s: float) -> list[Skipped]:
    """Do what is not done, as far as the time allows; those that are left, with the reason.

    A part that fails is left for another command, and so are those that would not fit.
    """
    until_s = time.monotonic() + limit_s
    left: list[Skipped] = []
    for part in parts:
        if part.name in done.found:
            print(f"{part.name}: done before", flush=True)
            continue
        left_s = until_s - time.monotonic()
        why = part.missing()
        if not why and left_s < part.most_s:
            why = f"may take {part.most_s:.0f} s, and {max(left_s, 0):.0f} of --limit-s were left"
        if not why:
            print(f"{part.name}: at most {part.most_s:.0f} s", flush=True)
            began_s = time.monotonic()
            try:
                done.add(part.name, part.run(done.folder, part.most_s))
            except RunError as error:
                why = str(error)
            print(f"{part.name}: {time.monotonic() - began_s:.0f} s{', ' + why if why else ''}", flush=True)
        if why:
            left.append(Skipped(name=part.name, reason=why, remedy="drivetrain bench gpu, again in the same --folder"))
    return left


def _restored(entry: Any) -> Found:
    cases = [replace(Case(**case), targets=[Target(**one) for one in case["targets"]]) for case in entry["cases"]]
    return Found(cases=cases, skipped=[Skipped(**one) for one in entry["skipped"]])
