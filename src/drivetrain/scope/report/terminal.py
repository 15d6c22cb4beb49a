"""The report for a terminal: what dominates in words, and a table."""

from collections.abc import Sequence

import rich.box
import rich.console
import rich.table

from drivetrain.scope.profile import Profile
from drivetrain.scope.report import gpu_terminal
from drivetrain.scope.report.amounts import brief, others, seconds
from drivetrain.scope.report.shares import Share, extent, in_words, shares, together

MOST_ROWS = 40
"""Of a table; a program may number its operations by a counter. All of them are in the page, and in its numbers."""


def show(profile: Profile, console: rich.console.Console) -> None:
    """Print it."""
    console.print(extent(profile), highlight=False)
    console.print("", table(profile), "", sep="\n")
    for paragraph in in_words(profile):
        console.print(paragraph, highlight=False, markup=False)
    gpu_terminal.show(profile.usage, console)
    for note in profile.notes:
        console.print(note, highlight=False, markup=False)


def table(profile: Profile) -> rich.table.Table:
    """Operation and class, with time and share over all threads."""
    drawn = rich.table.Table(box=rich.box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False, show_edge=False)
    for heading in ("operation", "class"):
        # Where they are too long, they go on in the next line: cut short, accelerator_api and accelerator_sync are one.
        drawn.add_column(heading, overflow="fold")
    for heading in ("raw", "share", "corrected", "bounds"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    found = shares(profile.breakdown())
    busy = sum(share.raw_ns for share in found) or 1
    rest = found[MOST_ROWS:]
    for share in found[:MOST_ROWS]:
        drawn.add_row(brief(share.operation), share.time_class, *_cells([share], busy))
    if rest:
        drawn.add_row(others(len(rest)), "", *_cells(rest, busy))
    return drawn


def _cells(several: Sequence[Share], busy_ns: float) -> list[str]:
    """The numbers of some shares together."""
    raw_ns = sum(share.raw_ns for share in several)
    likely, low, high = together(several)
    return [seconds(raw_ns), f"{raw_ns / busy_ns:.1%}", likely, f"{low}..{high}"]  # no wider: 80 columns hold it
