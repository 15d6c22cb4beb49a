"""A benchmark's JSON as a page of Markdown: weaknesses first, then the table, then the evidence.

`python -m drivetrain.bench.table REPORT.json PAGE.md` makes the page again from a kept report.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from drivetrain.bench.report import FORMAT, FORMAT_VERSION, write_text
from drivetrain.core.errors import FileFormatError

Document = Mapping[str, Any]


def as_markdown(document: Document) -> str:
    """The page of one report; equal reports give equal pages."""
    peers = sorted({peer for case in document["cases"] for peer in case["peers"]})
    sections = [
        f"# {document['title']}",
        "Generated from the JSON report by `drivetrain bench`; do not edit.",
        "## Weaknesses first\n\n" + bullets(document["weaknesses"]),
        *skipped_section(document["skipped"]),
        "## Results\n\nMedians. In brackets how far ahead we are: above 1, we are ahead.",
        table_of(document["cases"], peers),
        "## Runs behind the medians\n\n" + table_of_runs(document["cases"]),
        "## Where and how\n\n" + bullets(provenance(document)),
    ]
    return "\n\n".join(sections) + "\n"


def skipped_section(skipped: Sequence[Mapping[str, str]]) -> list[str]:
    """Peers that did not run, if there are any."""
    if not skipped:
        return []
    lines = [f"**{peer['name']}**: {peer['reason']} (`{peer['remedy']}`)" for peer in skipped]
    return ["## Skipped\n\n" + bullets(lines)]


def table_of(cases: Sequence[Document], peers: Sequence[str]) -> str:
    """One line per case."""
    header = ["case", "unit", "ours", *peers, "goal"]
    rows = [
        [
            case["name"].removesuffix(f" [{case['unit']}]"),
            case["unit"],
            number(case["ours"]),
            *(versus(case, peer) for peer in peers),
            goal(case),
        ]
        for case in cases
    ]
    return markdown_table(header, rows)


def versus(case: Document, peer: str) -> str:
    """A peer's median, and our ratio against it."""
    if peer not in case["peers"]:
        return "not run"
    return f"{number(case['peers'][peer])} (**{number(case['ratios'][peer])}×**)"


def goal(case: Document) -> str:
    """What we promise against each peer, and whether this run keeps it."""
    verdicts: list[str] = []
    for peer, promised in case["goal"].items():
        ratio = case["ratios"].get(peer)
        if ratio is not None:
            kept = "kept" if ratio >= promised else "missed"
            verdicts.append(f"{peer} {number(promised)}×: {kept}")
    return "; ".join(verdicts)


def table_of_runs(cases: Sequence[Document]) -> str:
    """Every sample, with the smallest one, and the notes of the case."""
    rows = [
        [
            case["name"],
            name,
            number(case["minima"].get(name)),
            ", ".join(number(value) for value in samples),
            "; ".join(case["notes"]) if name == "ours" else "",
        ]
        for case in cases
        for name, samples in case["samples"].items()
    ]
    return markdown_table(["case", "who", "smallest", "each seed", "notes"], rows)


def provenance(document: Document) -> list[str]:
    """Command, commit, machine, versions: without them a number means nothing."""
    machine, versions = document["machine"], document["versions"]
    return [
        f"Command: `{document['command']}`",
        f"Commit: `{document['commit']}`",
        "Machine: " + "; ".join(f"{name} {plain(value)}" for name, value in machine.items()),
        "Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()),
    ]


def plain(value: Any) -> str:
    """A value of the machine's description, on one line."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        return "{" + ", ".join(f"{name}: {plain(entry)}" for name, entry in entries.items()) + "}"
    return str(value)


def number(value: float | None) -> str:
    """Three significant digits, never in powers of ten."""
    if value is None:
        return "none"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def bullets(lines: Sequence[str]) -> str:
    """A list."""
    return "\n".join(f"- {line}" for line in lines)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; bars inside cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)


def load_report(path: Path) -> Document:
    """Read a report that `--json` wrote.

    Raises:
        FileFormatError: The file is no such report, or of a newer version.
    """
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path}: expected the JSON of a benchmark, got: {error}") from error
    report = cast("Document", document if isinstance(document, dict) else {})
    if report.get("format") != FORMAT:
        raise FileFormatError(f"{path}: not a report of `drivetrain bench`")
    if report["format_version"] > FORMAT_VERSION:
        raise FileFormatError(f"{path}: written by a newer drivetrain; upgrade to read it")
    return report


if __name__ == "__main__":
    write_text(Path(sys.argv[2]), as_markdown(load_report(Path(sys.argv[1]))))
