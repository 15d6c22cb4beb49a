"""Several runs side by side, for a terminal."""

from collections.abc import Sequence

import rich.box
import rich.console
import rich.table

from drivetrain.scope.report.beside import Run, keys, ratio
from drivetrain.scope.report.shares import extent, seconds


def show(runs: Sequence[Run], console: rich.console.Console) -> None:
    """Print what each run is, then the table."""
    for run in runs:
        console.print(f"{run.letter}: {run.name}: {extent(run.profile)}", highlight=False, markup=False)
    console.print(table(runs))
    for run in runs:
        for note in run.profile.notes:
            console.print(f"{run.letter}: {note}", highlight=False, markup=False)


def table(runs: Sequence[Run]) -> rich.table.Table:
    """Corrected time with its interval per run, and against the first (per step where steps are known)."""
    drawn = rich.table.Table(box=rich.box.SIMPLE_HEAD)
    drawn.add_column("operation", no_wrap=True)
    drawn.add_column("class")
    for run in runs:
        drawn.add_column(run.letter, justify="right")
    for run in runs[1:]:
        drawn.add_column(f"{run.letter} / {runs[0].letter}", justify="right")
    for key in keys(runs):
        drawn.add_row(*key, *(_cell(run, key) for run in runs), *(against(run, runs[0], key) for run in runs[1:]))
    return drawn


def against(run: Run, first: Run, key: tuple[str, str]) -> str:
    """The ratio to the first run, as text."""
    found = ratio(run, first, key)
    return "" if found is None else f"{found:.2f}×"


def _cell(run: Run, key: tuple[str, str]) -> str:
    """Corrected time, and its interval where that shows at three digits."""
    share = run.shares.get(key)
    if share is None:
        return ""
    low, high = seconds(share.low_ns), seconds(share.high_ns)
    return seconds(share.corrected_ns) + ("" if low == high else f" ({low} .. {high})")
