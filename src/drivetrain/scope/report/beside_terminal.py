"""Several runs side by side, for a terminal."""

from collections.abc import Callable, Sequence

import rich.box
import rich.console
import rich.table

from drivetrain.scope.report import beside_gpu
from drivetrain.scope.report.amounts import brief, others
from drivetrain.scope.report.beside import Run, keys, ratio
from drivetrain.scope.report.shares import extent, together
from drivetrain.scope.report.terminal import MOST_ROWS

_MOST_WIDTH = 28


def show(runs: Sequence[Run], console: rich.console.Console) -> None:
    """Print what each run is, the table, and how each used GPUs."""
    for run in runs:
        console.print(f"{run.letter}: {run.name}: {extent(run.profile)}", highlight=False, markup=False)
    console.print("", table(runs), "", sep="\n")
    _show_gpus(runs, console)
    for run in runs:
        for note in run.profile.notes:
            console.print(f"{run.letter}: {note}", highlight=False, markup=False)


def table(runs: Sequence[Run]) -> rich.table.Table:
    """Corrected time with its interval per run, and against the first (per step where steps are known)."""
    drawn = _columns(("operation", "class"), runs)
    found = keys(runs)
    for key in found[:MOST_ROWS]:
        drawn.add_row(*map(brief, key), *(_cell(run, [key]) for run in runs), *ratios(runs, key))
    if rest := found[MOST_ROWS:]:
        drawn.add_row(others(len(rest)), "", *(_cell(run, rest) for run in runs), *("" for _ in runs[1:]))
    return drawn


def _columns(headings: Sequence[str], runs: Sequence[Run]) -> rich.table.Table:
    """A table of some text, a column per run, and ratios to the first."""
    drawn = rich.table.Table(box=rich.box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False, show_edge=False)
    for heading in headings:
        # Names of a program's own operations may be of any length: rich would leave out the numbers.
        drawn.add_column(heading, max_width=_MOST_WIDTH, overflow="fold")
    for run in runs:
        drawn.add_column(run.letter, justify="right")
    for heading in headings_of_ratios(runs):
        drawn.add_column(heading, justify="right", no_wrap=True)
    return drawn


def _show_gpus(runs: Sequence[Run], console: rich.console.Console) -> None:
    users = beside_gpu.used(runs)
    tables = [
        ((beside_gpu.USE_HEADING,), beside_gpu.uses(users)),
        (beside_gpu.LAUNCHED_HEADINGS, beside_gpu.launched(users)),
    ]
    for headings, rows in tables if users else ():
        drawn = _columns(headings, users)
        for row in rows:
            drawn.add_row(*row.what, *(_gpu_cell(run, row) for run in users), *gpu_ratios(users, row))
        console.print("", drawn, "", sep="\n")
    for letter, sentence in beside_gpu.in_words(runs):
        console.print(f"{letter}: {sentence}", highlight=False, markup=False)


def _gpu_cell(run: Run, row: beside_gpu.Row) -> str:
    """Time, and what it is of the time that was recorded."""
    time, of_time, _ = beside_gpu.cells(run, row)
    return time and f"{time} ({of_time})"


def headings_of_ratios(runs: Sequence[Run]) -> list[str]:
    """Of all runs but the first."""
    return [f"{run.letter} / {runs[0].letter}" for run in runs[1:]]


def ratios(runs: Sequence[Run], key: tuple[str, str]) -> list[str]:
    """Of all runs but the first to it, as text."""
    return _texts(runs, lambda run: ratio(run, runs[0], key))


def gpu_ratios(runs: Sequence[Run], row: beside_gpu.Row) -> list[str]:
    """The same of a time of GPUs."""
    return _texts(runs, lambda run: beside_gpu.ratio(run, runs[0], row))


def _texts(runs: Sequence[Run], ratio_to_first: Callable[[Run], float | None]) -> list[str]:
    found = map(ratio_to_first, runs[1:])
    return ["" if one is None else f"{one:.2f}×" for one in found]


def _cell(run: Run, some: Sequence[tuple[str, str]]) -> str:
    """Corrected time of some rows together, and its interval where that shows at three digits."""
    found = [run.shares[key] for key in some if key in run.shares]
    if not found:
        return ""
    likely, low, high = together(found)
    return likely + ("" if low == high else f" ({low}..{high})")
