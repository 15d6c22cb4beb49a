"""GPUs on a terminal: sentences, and who launched what."""

import rich.box
import rich.console
import rich.table

from drivetrain.scope.accelerator.usage import Usage
from drivetrain.scope.report import gpu

_NUM_TEXT_COLUMNS = 2


def show(usage: Usage | None, console: rich.console.Console) -> None:
    """Print it; one sentence where no GPU was used."""
    if usage is not None and usage.was_used:
        console.print(_table(gpu.OPERATION_HEADINGS, gpu.operation_cells(usage)))
        console.print(_table(gpu.MEANWHILE_HEADINGS, gpu.meanwhile_cells(usage), 1))
    for text in gpu.in_words(usage):
        console.print(text, highlight=False, markup=False)


def _table(headings: list[str], rows: list[list[str]], num_text: int = _NUM_TEXT_COLUMNS) -> rich.table.Table:
    drawn = rich.table.Table(box=rich.box.SIMPLE_HEAD)
    for number, heading in enumerate(headings):
        drawn.add_column(heading, justify="left" if number < num_text else "right")
    for row in rows:
        drawn.add_row(*row)
    return drawn
