"""Sums as one HTML file that needs nothing else: a bar per process, all numbers, and what recording cost."""

from collections.abc import Sequence
from html import escape

from drivetrain.scope.report.amounts import brief, part, seconds
from drivetrain.scope.report.cells import table
from drivetrain.scope.report.chart import Bar, Chart, Line, Row
from drivetrain.scope.report.frame import color_of, document
from drivetrain.scope.report.totals_rows import is_waiting, label, labels
from drivetrain.scope.totals import Spent, Totals

_WAITING = "hsl(220 8% var(--light) / 0.35)"


def render(totals: Totals, title: str, facts: str, words: Sequence[str]) -> str:
    """The page.

    Args:
        totals: What was recorded.
        title: Of the page.
        facts: What was run, in one line.
        words: What the numbers say; one paragraph each.
    """
    sums = {name: _sums([row for row in totals.rows if row.process == name]) for name in totals.processes}
    colors = _colors(labels(sums.values()))
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in words)
    notes = "".join(f"<li>{escape(note)}</li>" for note in _notes(totals))
    return document(
        title,
        escape(facts),
        [
            ("Where the time went", paragraphs + _bars(sums, colors)),
            ("All numbers", _numbers(totals, colors)),
            ("What recording cost", _cost(totals)),
            ("What was not captured", f"<ul>{notes}</ul>"),
        ],
    )


def _bars(sums: dict[str, dict[str, int]], colors: dict[str, str]) -> str:
    """One bar per process, each as long as the page is wide; the legend says it in words."""
    rows = [
        Row(label=f"{brief(name)}, {seconds(sum(parts.values()))}", lines=[Line(bars=_parts(name, parts, colors))])
        for name, parts in sums.items()
    ]
    chart = Chart(says="Shares of what each process did", rows=rows, unit="% of its time").render()
    legend = "".join(f'<li><i style="background:{color}"></i>{escape(what)}</li>' for what, color in colors.items())
    return f"{chart}<ul>{legend}</ul>"


def _sums(rows: Sequence[Spent]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in rows:
        sums[label(row)] = sums.get(label(row), 0) + row.ns
    return sums


def _parts(name: str, sums: dict[str, int], colors: dict[str, str]) -> list[Bar]:
    whole = sum(sums.values()) or 1
    bars: list[Bar] = []
    start = 0.0
    for what in (what for what in colors if what in sums):
        stop = start + 100 * sums[what] / whole
        says = f"{brief(name)}: {brief(what)} {part(sums[what], whole)}, {seconds(sums[what])}"
        bars.append(Bar(start=start, stop=stop, color=colors[what], says=says))
        start = stop
    return bars


def _colors(order: Sequence[str]) -> dict[str, str]:
    """By label, in the order of bars and legend. Phases have their operation's color; waiting is pale everywhere."""
    own = color_of([what.partition(",")[0] for what in order if not is_waiting(what)])
    return {what: _WAITING if is_waiting(what) else own[what.partition(",")[0]] for what in order}


def _numbers(totals: Totals, colors: dict[str, str]) -> str:
    rows = [
        [
            escape(row.process),
            f'<i style="background:{colors[label(row)]}"></i>{escape(label(row))}',
            row.time_class,
            seconds(row.ns),
            f"{row.ns / totals.process_ns(row.process):.1%}",
            f"{row.num_entered:,}",
            seconds(row.ns / row.num_entered) if row.num_entered else "",
        ]
        for row in totals.rows
    ]
    return table(["process", "what", "class of time", "time", "of the process", "times entered", "each"], rows, "spent")


def _cost(totals: Totals) -> str:
    whole = sum(row.ns for row in totals.rows) or 1
    return (
        f"<p>Recording added about {seconds(totals.added_ns)} to all processes together, {totals.added_ns / whole:.2%} "
        f"of their time: {totals.num_entered:,} times something was entered and left, at what each process measured "
        "when it began. It is in the numbers above.</p>"
    )


def _notes(totals: Totals) -> list[str]:
    return [
        *totals.notes,
        "Times are of the clock on the wall: a process that waits for a core, because others are on it, seems busy.",
        "Before a process records, Python starts; that, and threads beside a process's first, are not in here.",
        "Sums have no time line, and do not say what went on at the same time: `drivetrain profile` records both.",
    ]
