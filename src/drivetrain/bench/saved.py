"""Reports read back from the JSON that `--json` wrote, in today's form whatever wrote them."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from drivetrain.bench.report import FORMAT, FORMAT_VERSION
from drivetrain.core.aside import save_text
from drivetrain.core.errors import DrivetrainError, FileFormatError, InvalidInput
from drivetrain.core.outputs import require_folders
from drivetrain.core.printable import printable

Document = Mapping[str, Any]
PARTS = frozenset({"title", "machine", "versions", "commit", "command", "weaknesses", "skipped", "cases"})
CASE_PARTS = frozenset({"name", "unit", "ours", "peers", "ratio", "ratios", "minima", "samples", "notes"})
NEW_CASE_PARTS = frozenset({"group", "references", "targets", "cpu"})
"""Since version 2."""


def load_report(path: Path) -> Document:
    """Read a report that `--json` wrote.

    Raises:
        FileFormatError: The file is no such report, damaged, or of a newer version.
    """
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path}: expected the JSON of a benchmark, got: {error}") from error
    report = cast("dict[str, Any]", document if isinstance(document, dict) else {})
    if report.get("format") != FORMAT:
        raise FileFormatError(f"{path}: not a report of `drivetrain bench`")
    version = version_of(path, report, newest=FORMAT_VERSION, parts=PARTS)
    parts = CASE_PARTS | ({"goal"} if version < 2 else NEW_CASE_PARTS)
    for case in report["cases"]:
        require_parts(path, case, parts, of="cases")
    return report if version > 1 else upgraded(report)


def version_of(path: Path, document: Document, *, newest: int, parts: frozenset[str]) -> int:
    """The version of a document's format.

    Args:
        path: Its file, for messages.
        document: All of it.
        newest: The latest version that is known here.
        parts: What every document has.

    Raises:
        FileFormatError: It has none, is newer, or has not all parts.
    """
    version = document.get("format_version")
    if not isinstance(version, int):
        raise FileFormatError(f"{path}: damaged: expected a whole number as format_version, got {version!r}")
    if version > newest:
        raise FileFormatError(f"{path}: written by a newer drivetrain; upgrade to read it")
    if absent := sorted(parts - document.keys()):
        raise FileFormatError(f"{path}: damaged: expected {', '.join(sorted(parts))}; there is no {', '.join(absent)}")
    return version


def require_parts(path: Path, entry: Any, parts: frozenset[str], *, of: str) -> None:
    """See to it that an entry of a document has all that one has.

    Raises:
        FileFormatError: It has not.
    """
    absent = sorted(parts - cast("Document", entry).keys()) if isinstance(entry, dict) else sorted(parts)
    if absent:
        raise FileFormatError(f"{path}: damaged: expected {of} with {', '.join(sorted(parts))}; one has no {absent[0]}")


def write_page(words: Sequence[str], page_of: Callable[[Path], str]) -> int:
    """Make a page again, as `python -m MODULE REPORT.json PAGE.md` does; what is wrong is one line. The exit code.

    Args:
        words: The names of both files.
        page_of: Makes the page of a report's file.
    """
    try:
        if len(words) != 2:
            raise InvalidInput(
                "expected two names: of the kept report, and of the page to write, as train.json train.md"
            )
        report, page = map(Path, words)
        require_folders(page)
        save_text(page, page_of(report))
        return 0
    except DrivetrainError as error:
        message = str(error)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
    print(f"error: {printable(message)}", file=sys.stderr)
    return 2


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
