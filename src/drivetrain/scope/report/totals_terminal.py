"""Sums for a terminal: a column per group of processes, in percent of its time."""

import rich.box
import rich.table

from drivetrain.scope.report.amounts import seconds
from drivetrain.scope.report.totals_rows import by_group, labels
from drivetrain.scope.totals import Totals

_LEAST = 0.0005
"""Of a column: what would be 0.0% in all of them is left out."""


def table(totals: Totals) -> rich.table.Table:
    """Operations by group of processes; the columns sum to 100%."""
    groups = by_group(totals)
    whole = {name: sum(sums.values()) or 1 for name, sums in groups.items()}
    drawn = rich.table.Table(box=rich.box.SIMPLE_HEAD, show_footer=True)
    drawn.add_column("", footer="all processes together")
    for name in groups:
        drawn.add_column(name, justify="right", footer=seconds(whole[name]))
    for what in labels(groups.values()):
        parts = [groups[name].get(what, 0) / whole[name] for name in groups]
        if max(parts) >= _LEAST:
            drawn.add_row(what, *(f"{part:.1%}" if part >= _LEAST else "" for part in parts))
    return drawn
