"""Reports read back from the JSON that `--json` wrote, in today's form whatever wrote them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from drivetrain.bench.report import FORMAT, FORMAT_VERSION
from drivetrain.core.errors import FileFormatError

Document = Mapping[str, Any]


def load_report(path: Path) -> Document:
    """Read a report that `--json` wrote.

    Raises:
        FileFormatError: The file is no such report, or of a newer version.
    """
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path}: expected the JSON of a benchmark, got: {error}") from error
    report = cast("dict[str, Any]", document if isinstance(document, dict) else {})
    if report.get("format") != FORMAT:
        raise FileFormatError(f"{path}: not a report of `drivetrain bench`")
    if report["format_version"] > FORMAT_VERSION:
        raise FileFormatError(f"{path}: written by a newer drivetrain; upgrade to read it")
    return report if report["format_version"] > 1 else upgraded(report)


def upgraded(document: Document) -> Document:
    """A report of version 1 in today's form."""
    new: dict[str, Any] = {"group": "", "references": {}, "cpu": {}}
    cases: list[dict[str, Any]] = [new | case | {"targets": targets_of_goal(case)} for case in document["cases"]]
    return {**document, "format_version": FORMAT_VERSION, "cases": cases}


def targets_of_goal(case: Document) -> list[dict[str, Any]]:
    """The targets of a case of version 1."""
    reached = {peer: case["ratios"].get(peer) for peer in case["goal"]}
    return [
        {
            "against": peer,
            "aim": aim,
            "form": "ahead",
            "got": reached[peer],
            "met": None if reached[peer] is None else reached[peer] >= aim,
        }
        for peer, aim in case["goal"].items()
    ]
