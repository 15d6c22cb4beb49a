"""How every `drivetrain bench` begins and ends: who takes part, and where its report goes.

peers -> present (absent ones are announced) ... Report -> publish -> JSON, page, screen
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.bench.process import Rival
from drivetrain.bench.report import Report, Skipped, write_json
from drivetrain.bench.table import as_markdown
from drivetrain.core.aside import save_text


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Options of every bench that ends with a report."""

    json: Path | None = None
    """Write the report to this file."""
    markdown: Path | None = None
    """Write the report as a page with tables to this file."""


def present(peers: Sequence[Rival]) -> tuple[list[Rival], list[Skipped]]:
    """The peers that can run here, and those that cannot: these are announced, with the remedy."""
    absent = [skipped for peer in peers if (skipped := peer.missing()) is not None]
    for peer in absent:
        print(f"skipped: {peer.name}, {peer.reason}; to have it: {peer.remedy}")
    return [peer for peer in peers if peer.missing() is None], absent


def publish(report: Report, to: Outputs, page: Callable[[Mapping[str, Any]], str] = as_markdown) -> None:
    """Write the report and its page to the files asked for, and print the page.

    Args:
        report: What was found.
        to: Where they go.
        page: Makes the page of the report's document.
    """
    document = report.as_json()
    text = page(document)
    try:
        if to.json is not None:
            write_json(to.json, document)
        if to.markdown is not None:
            save_text(to.markdown, text)
    finally:  # what was measured is shown, also where the disk is full by now
        print(text)
