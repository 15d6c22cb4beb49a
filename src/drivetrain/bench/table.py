"""A benchmark's JSON as a page of Markdown: weaknesses first, then the table, then the evidence.

`python -m drivetrain.bench.table REPORT.json PAGE.md` makes the page again from a kept report.
"""

import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

from drivetrain.bench.saved import load_report, write_page

Document = Mapping[str, Any]


def as_markdown(document: Document) -> str:
    """The page of one report; equal reports give equal pages."""
    cases = document["cases"]
    sections = [
        f"# {document['title']}",
        "Generated from the JSON report by `drivetrain bench`; do not edit.",
        "## Weaknesses first\n\n" + bullets([*missed(cases), *document["weaknesses"]]),
        *skipped_section(document["skipped"]),
        "## Results\n\nMedians. In brackets how far ahead we are: above 1, we are ahead.",
        *tables_of(cases),
        *evidence(cases),
        "## Where and how\n\n" + bullets(provenance(document)),
    ]
    return "\n\n".join(sections) + "\n"


def missed(cases: Sequence[Document]) -> list[str]:
    """How many targets this run missed, if it missed any."""
    verdicts = [target["met"] for case in cases for target in case["targets"] if target["met"] is not None]
    behind = sum(case["ratio"] is not None and case["ratio"] < 1 for case in cases)
    lines = [f"{verdicts.count(False)} of {len(verdicts)} targets are missed."] if False in verdicts else []
    return [*lines, f"In {behind} of {len(cases)} cases a peer is ahead of us."] if behind else lines


def skipped_section(skipped: Sequence[Mapping[str, str]]) -> list[str]:
    """Peers that did not run, if there are any."""
    if not skipped:
        return []
    lines = [f"**{peer['name']}**: {peer['reason']} (`{peer['remedy']}`)" for peer in skipped]
    return ["## Skipped\n\n" + bullets(lines)]


def tables_of(cases: Sequence[Document]) -> list[str]:
    """One table per group of cases, each with the contenders that take part in it."""
    groups = dict.fromkeys(case["group"] for case in cases)
    sections: list[str] = []
    for group in groups:
        members = [case for case in cases if case["group"] == group]
        sections += [f"### {group}"] * bool(group) + [table_of(members)]
        sections += [bullets(notes)] if group and (notes := notes_of(members)) else []
    return sections


def table_of(cases: Sequence[Document]) -> str:
    """One line per case."""
    peers, references = names_in(cases, "peers"), names_in(cases, "references")
    header = ["case", "unit", "ours", *peers, *references, "target"]
    rows = [
        [
            short_name(case),
            case["unit"],
            number(case["ours"]),
            *(versus(case, peer) for peer in peers),
            *(number(case["references"][name]) if name in case["references"] else "" for name in references),
            targets(case),
        ]
        for case in cases
    ]
    return markdown_table(header, rows)


def names_in(cases: Sequence[Document], key: str) -> list[str]:
    """Everybody named under `key` of some case, sorted."""
    return sorted({name for case in cases for name in case[key]})


def short_name(case: Document) -> str:
    """The name of a case, without the unit that stands beside it."""
    return case["name"].removesuffix(f" [{case['unit']}]")


def versus(case: Document, peer: str) -> str:
    """A peer's median, and our ratio against it if we have a value too."""
    if peer not in case["peers"]:
        return "not run"
    value, ratio = case["peers"][peer], case["ratios"].get(peer)
    return number(value) if ratio is None else f"{number(value)} (**{number(ratio)}×**)"


def targets(case: Document) -> str:
    """What we aim at, and whether this run gave it."""
    return "; ".join(map(verdict, case["targets"]))


def verdict(target: Document) -> str:
    """One target and what became of it."""
    aim = f"{target['against']} {'≤ ' if target['form'] == 'within' else ''}{number(target['aim'])}×"
    if target["met"] is None:
        return f"{aim}: not measured"
    return f"{aim}: {number(target['got'])}×, {'met' if target['met'] else 'missed'}"


def notes_of(cases: Sequence[Document]) -> list[str]:
    """Every note of some cases, once."""
    return list(dict.fromkeys(note for case in cases for note in case["notes"]))


def evidence(cases: Sequence[Document]) -> list[str]:
    """What is behind the medians: every run where there are few, else minima and CPU time."""
    timed, counted = [c for c in cases if c["cpu"]], [c for c in cases if not c["cpu"]]
    sections: list[str] = []
    if timed:
        heading = "## Smallest values and CPU time\n\nThe smallest value; behind the bar the median CPU time."
        sections += [heading, table_of_minima(timed)]
    if counted:
        sections += ["## Runs behind the medians", table_of_runs(counted)]
    return sections


def table_of_minima(cases: Sequence[Document]) -> str:
    """Smallest value and CPU time of everybody, one line per case."""
    names = ["ours", *names_in(cases, "peers"), *names_in(cases, "references")]
    rows = [
        [
            short_name(case),
            case["unit"],
            *(
                f"{number(case['minima'][name])} | {number(case['cpu'].get(name))}" if name in case["minima"] else ""
                for name in names
            ),
        ]
        for case in cases
    ]
    return markdown_table(["case", "unit", *names], rows)


def table_of_runs(cases: Sequence[Document]) -> str:
    """Every sample, with the smallest one, and the notes of the case."""
    rows = [
        [
            case["name"],
            name,
            number(case["minima"].get(name)),
            ", ".join(number(value) for value in samples),
            "; ".join(case["notes"]) if name == "ours" and not case["group"] else "",
        ]
        for case in cases
        for name, samples in case["samples"].items()
    ]
    return markdown_table(["case", "who", "smallest", "each run", "notes"], rows)


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
    return f"{value:,.0f}" if abs(value) >= 100 else f"{Decimal(f'{value:.3g}'):f}"


def bullets(lines: Sequence[str]) -> str:
    """A list."""
    return "\n".join(f"- {line}" for line in lines)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; bars inside cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)


if __name__ == "__main__":
    sys.exit(write_page(sys.argv[1:], lambda path: as_markdown(load_report(path))))
