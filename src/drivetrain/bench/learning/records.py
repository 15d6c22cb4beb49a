"""The kept runs: one record each in a JSON file, which grows as runs finish.

    {"format": ..., "format_version": ..., "runs": [
    {"case", "side", "seed", "total_steps", "settings",              what was asked for
     "num_steps", "num_updates", "returns", "curve", "cpu_s",        what came of it
     "commit", "command", "versions", "machine"},                    by what, where
    ...]}

A record is on one line, so that two versions of the file differ by the runs that were added. The
file is replaced as a whole under a lock of its folder: a reader sees all of a record or nothing,
a killed command loses the run in progress and no other, and several commands may add to one file.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from drivetrain.bench.kept import locked
from drivetrain.bench.learning.case import LearningCase
from drivetrain.bench.learning.contests import CONTESTS
from drivetrain.bench.learning.run import Learned
from drivetrain.bench.machine import Origin
from drivetrain.bench.saved import require_parts, version_of
from drivetrain.core.aside import save_text
from drivetrain.core.errors import FileFormatError

FORMAT = "drivetrain-learning"
FORMAT_VERSION = 1

Run = Mapping[str, Any]
FIELDS = frozenset(
    {
        *("case", "side", "seed", "total_steps", "settings"),
        *("num_steps", "num_updates", "returns", "curve", "cpu_s"),
        *("commit", "command", "versions", "machine"),
    }
)


def load(path: Path) -> list[Run]:
    """The records of a file; none where there is no file yet.

    Raises:
        FileFormatError: The file is something else, damaged, or of a newer version.
    """
    if not path.exists():
        return []
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path}: expected the JSON of `drivetrain bench learning`, got: {error}") from error
    if not isinstance(document, dict) or cast("Run", document).get("format") != FORMAT:
        raise FileFormatError(f"{path}: holds no runs of `drivetrain bench learning`; name another file")
    version_of(path, cast("Run", document), newest=FORMAT_VERSION, parts=frozenset({"runs"}))
    runs: list[Run] = cast("Run", document)["runs"]
    for run in runs:
        require_parts(path, run, FIELDS, of="runs")
    return runs


def add(path: Path, run: Run) -> None:
    """Add a finished run to the file, which is made if it is not there."""
    with locked(path.absolute().parent):
        save_text(path, as_text([*load(path), run]))


def as_text(runs: Sequence[Run]) -> str:
    """The document, records in the order of cases, sides and seeds."""
    cases = [case.name for contest in CONTESTS.values() for case in contest.cases]
    sides = [side.name for contest in CONTESTS.values() for side in contest.sides]

    def place(run: Run) -> tuple[int, int, int]:
        index = cases.index(run["case"]) if run["case"] in cases else len(cases)
        return index, sides.index(run["side"]) if run["side"] in sides else len(sides), run["seed"]

    lines = ",\n".join(json.dumps(run, allow_nan=False) for run in sorted(runs, key=place))
    head = f'{{"format": "{FORMAT}", "format_version": {FORMAT_VERSION}, "runs": ['
    return f"{head}\n{lines}\n]}}\n" if runs else f"{head}]}}\n"


def make_record(case: LearningCase, side: str, seed: int, learned: Learned, origin: Origin) -> Run:
    """The record of a finished run."""
    asked = {"case": case.name, "side": side, "seed": seed, **case.conditions()}
    return asked | asdict(learned) | asdict(origin)


def counting(runs: Sequence[Run], case: LearningCase, side: str) -> list[Run]:
    """The runs of a side that count for a case, one per seed: made at today's steps and settings.

    A setting that a run's record does not know has been added since, and was then what it is by default.
    """
    wanted, defaults = {"case": case.name, "side": side, **case.conditions()}, case.defaults()
    then = [(run, {**run, "settings": defaults | run["settings"]}) for run in runs]
    found = [run for run, known in then if all(known.get(key) == value for key, value in wanted.items())]
    return list({run["seed"]: run for run in sorted(found, key=lambda run: run["seed"])}.values())
