"""The survey as a page of Markdown: what it cannot show, then claim by claim, then where each load's time goes.

`python -m drivetrain.bench.scope.survey.page REPORT.json PAGE.md` makes the page again from a kept report.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.bench.saved import load_report, write_page
from drivetrain.bench.scope.survey.survey import CLAIMS, LOADS
from drivetrain.bench.table import bullets, markdown_table, names_in, number, provenance, skipped_section

Document = Mapping[str, Any]
VERDICTS = {True: "holds", False: "does not hold", None: "cannot be told here"}


def as_page(document: Document) -> str:
    """The page of one report; equal reports give equal pages."""
    cases = document["cases"]
    claims = [case for case in cases if case["group"] == CLAIMS]
    loads = [case for case in cases if case["group"] == LOADS]
    sections = [
        f"# {document['title']}",
        "Generated from the JSON report by `drivetrain bench scope --survey`; do not edit. The claims are those of "
        "RL-Scope: Cross-Stack Profiling for Deep Reinforcement Learning Workloads (MLSys 2021).",
        "## Weaknesses first\n\n" + bullets(document["weaknesses"]),
        *skipped_section(document["skipped"]),
        "## What it found, and what we see\n\n" + claims_table(claims),
        "## Where the time goes\n\nPercent of the time that threads were busy, once a program has settled (the second "
        "half of its steps); medians of all runs.\n\n" + shares_table(loads),
        "## Per step\n\n" + steps_table(loads),
        "## Where and how\n\n" + bullets(provenance(document)),
    ]
    return "\n\n".join(sections) + "\n"


def claims_table(cases: Sequence[Document]) -> str:
    """Claim, its number, ours, the verdict, and what is behind it."""
    rows = [
        [
            case["name"],
            _with_unit(case["references"].get("RL-Scope"), case["unit"]),
            _with_unit(case["ours"], case["unit"]),
            VERDICTS[case["details"]["holds"]],
            "; ".join(case["notes"]),
        ]
        for case in cases
    ]
    return markdown_table(["claim", "RL-Scope", "here", "verdict", "of"], rows)


def shares_table(cases: Sequence[Document]) -> str:
    """One line per load, one column per operation, that of the simulator first."""
    others = [name for name in names_in(cases, "references") if any(case["references"][name] >= 0.05 for case in cases
                                                                    if name in case["references"])]  # fmt: skip
    rows = [
        [case["name"], number(case["ours"]), *(number(case["references"].get(name, 0.0)) for name in others)]
        for case in cases
    ]
    return markdown_table(["load", "simulation", *others], rows)


def steps_table(cases: Sequence[Document]) -> str:
    """Time and transitions per step of a simulator, processes, waiting, and what recording added."""
    header = ["load", "wall µs per step", "calls into native code per step", "processes", "main thread waits, %",
              "recording added, %", "GPU busy, %", "GPU-bound, %"]  # fmt: skip
    keys = ("us_per_step", "transitions_per_step", "num_processes", "learner_waiting_percent", "overhead_percent",
            "gpu_busy_percent", "gpu_bound_percent")  # fmt: skip
    rows = [[case["name"], *(number(case["details"][key]) for key in keys)] for case in cases]
    return markdown_table(header, rows)


def _with_unit(value: float | None, unit: str) -> str:
    return "" if value is None else f"{number(value)}{unit if unit in ('%', '×') else f' {unit}'}"


if __name__ == "__main__":
    sys.exit(write_page(sys.argv[1:], lambda path: as_page(load_report(path))))
