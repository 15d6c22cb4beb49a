"""Several runs side by side, as one HTML file that needs nothing else."""

from collections.abc import Sequence
from html import escape

from drivetrain.scope.report import bars, beside_gpu
from drivetrain.scope.report.amounts import seconds
from drivetrain.scope.report.beside import Run, keys
from drivetrain.scope.report.beside_terminal import gpu_ratios, headings_of_ratios, ratios
from drivetrain.scope.report.cells import table
from drivetrain.scope.report.frame import color_of, document
from drivetrain.scope.report.shares import extent, in_words


def render(runs: Sequence[Run], title: str) -> str:
    """The page: what each run is, what dominates it, bars and a table of all, GPUs, and what was not captured."""
    colors = color_of([operation for operation, _ in keys(runs)])
    sections = [
        ("What dominates", _words(runs)),
        ("Side by side", bars.render({run.letter: list(run.shares.values()) for run in runs}, colors)),
        ("All numbers", _table(runs, colors)),
        ("GPUs", _gpus(runs)),
        ("What was not captured", _notes(runs)),
    ]
    facts = "<br>".join(f"<b>{run.letter}</b> {escape(run.name)}: {extent(run.profile)}" for run in runs)
    return document(title, facts, sections)


def _words(runs: Sequence[Run]) -> str:
    return "".join(f"<p><b>{run.letter}</b> {escape(in_words(run.profile)[0])}</p>" for run in runs)


def _table(runs: Sequence[Run], colors: dict[str, str]) -> str:
    headings = ["operation", "class of time"]
    for run in runs:
        headings += [f"{run.letter} raw", f"{run.letter} corrected", "between"]
        headings += [f"{run.letter} per step"]
    headings += headings_of_ratios(runs)
    rows: list[list[str]] = []
    for key in keys(runs):
        row = [f'<i style="background:{colors[key[0]]}"></i>{escape(key[0])}', key[1]]
        for run in runs:
            row += _cells(run, key)
        rows.append(row + ratios(runs, key))
    what = "Ratios are of corrected time, per step where both runs know their steps."
    return table(headings, rows, "breakdown") + f'<p class="quiet">{what}</p>'


def _gpus(runs: Sequence[Run]) -> str:
    """A sentence of each run; tables of those that used a GPU."""
    words = "".join(f"<p><b>{letter}</b> {escape(sentence)}</p>" for letter, sentence in beside_gpu.in_words(runs))
    users = beside_gpu.used(runs)
    parts = [
        _gpu_table(users, (beside_gpu.USE_HEADING,), beside_gpu.uses(runs), "gpus"),
        _gpu_table(users, beside_gpu.LAUNCHED_HEADINGS, beside_gpu.launched(runs), "launched"),
    ]
    if devices := beside_gpu.device_cells(runs):
        cells = [[escape(cell) for cell in row] for row in devices]
        parts.append(table(beside_gpu.DEVICE_HEADINGS, cells, "devices"))
    return words + "".join(parts)


def _gpu_table(runs: Sequence[Run], what: Sequence[str], found: Sequence[beside_gpu.Row], name: str) -> str:
    if not found:
        return ""
    headings = [*what]
    for run in runs:
        headings += [f"{run.letter} time", f"{run.letter} of the time", f"{run.letter} per step"]
    rows: list[list[str]] = []
    for row in found:
        rows.append([*map(escape, row.what), *(cell for run in runs for cell in beside_gpu.cells(run, row))])
        rows[-1] += gpu_ratios(runs, row)
    return table(headings + headings_of_ratios(runs), rows, name)


def _cells(run: Run, key: tuple[str, str]) -> list[str]:
    share = run.shares.get(key)
    if share is None:
        return [""] * 4
    per_step = run.per_step_ns(share)
    return [
        seconds(share.raw_ns),
        seconds(share.corrected_ns),
        f"{seconds(share.low_ns)} to {seconds(share.high_ns)}",
        "" if per_step is None else seconds(per_step),
    ]


def _notes(runs: Sequence[Run]) -> str:
    notes = [f"{run.letter}: {note}" for run in runs for note in run.profile.notes]
    notes.append("The page of one run alone says more: its time line, processes, and what recording cost.")
    return "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>"
