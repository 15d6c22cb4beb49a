"""A chart of the page, as data: rows of bars, intervals and outlines, which plot/draw.js draws with Observable Plot.

rows -> figure with its JSON inside -> scripts(), once per page -> SVG, in the browser

The library comes with the page, so nothing is asked of a network. Every number of a chart stands in a table beside it.
"""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path

from drivetrain.scope.report.amounts import brief

MOST_ROWS = 30
"""More would be a wall; what is left out is said, and stands in the table."""
_FOLDER = Path(__file__).parent / "plot"
_SCRIPTS = ("plot.js", "draw.js")


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A part of a line, from here to there, and what it says where it is pointed at or chosen by keyboard."""

    start: float
    stop: float
    color: str
    says: str
    opacity: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Line:
    """Bars beside each other.

    Attributes:
        bars: What is drawn, from the left to the right.
        name: Of one of several lines of a row.
        value: Written at the right.
        interval: Low and high, drawn as an error bar.
        outline: Where a second bar, of which only the outline is drawn, ends.
    """

    bars: Sequence[Bar] = ()
    name: str = ""
    value: str = ""
    interval: tuple[float, float] | None = None
    outline: float | None = None

    def ends(self) -> list[float]:
        """Where something of it is."""
        found = [end for bar in self.bars for end in (bar.start, bar.stop)]
        return [*found, *(self.interval or ()), *([] if self.outline is None else [self.outline])]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one label stands above."""

    label: str
    lines: Sequence[Line]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Rows on one axis.

    Attributes:
        says: What is seen in it, for who cannot see it.
        rows: From the top; those beyond the most that are drawn are left out, which is said.
        unit: Of the axis.
        per: What one of the unit is, in the numbers of the rows.
        most_rows: That are drawn.
        over_time: Whether the axis is time: bars then say from when to when they are, and in which row.
    """

    says: str
    rows: Sequence[Row]
    unit: str
    per: float = 1.0
    most_rows: int = MOST_ROWS
    over_time: bool = False

    def render(self) -> str:
        """The figure; nothing where nothing has a length."""
        rows = self.rows[: self.most_rows]
        ends = [0.0, *(end for row in rows for line in row.lines for end in line.ends())]
        if max(ends) <= min(ends):
            return ""
        left_out = len(self.rows) - len(rows)
        more = f'<p class="quiet">{left_out} more rows are not drawn.</p>' if left_out else ""
        return (
            f'<figure class="chart" tabindex="0" role="group" aria-label="{escape(self.says)}" hidden>'
            f'<script type="application/json">{self._json(rows, min(ends), max(ends))}</script>'
            f'<div></div><output aria-live="polite"></output></figure>{more}'
        )

    def _json(self, rows: Sequence[Row], low: float, high: float) -> str:
        kinds: dict[tuple[str, float, str], int] = {}
        drawn = [{"label": brief(row.label), "lines": [_line(line, kinds) for line in row.lines]} for row in rows]
        chart = {
            "says": self.says,
            "unit": self.unit,
            "per": self.per,
            "low": low,
            "high": high,
            "over_time": self.over_time,
            "kinds": [{"color": color, "opacity": opacity, "says": says} for color, opacity, says in kinds],
            "rows": drawn,
        }
        # No name can end the script: "<" is written as JSON's escape.
        return json.dumps(chart, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _line(line: Line, kinds: dict[tuple[str, float, str], int]) -> Mapping[str, object]:
    """As JSON; what bars look like and say is kept once."""
    bars = [
        [bar.start, bar.stop, kinds.setdefault((bar.color, bar.opacity, bar.says), len(kinds))] for bar in line.bars
    ]
    return {"bars": bars, "name": line.name, "value": line.value, "interval": line.interval, "outline": line.outline}


def unit_of_time(longest_ns: float) -> tuple[str, float]:
    """What suits an axis that is as long, and its nanoseconds."""
    for unit, ns in (("seconds", 1e9), ("milliseconds", 1e6), ("microseconds", 1e3)):
        if longest_ns >= ns:
            return unit, ns
    return "nanoseconds", 1.0


def scripts() -> tuple[str, list[str]]:
    """What draws the charts of a page, as HTML, and the digests by which a policy lets it and no other script run."""
    texts = [(_FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPTS]
    digests = [b64encode(sha256(text.encode()).digest()).decode() for text in texts]
    return "".join(f"<script>{text}</script>" for text in texts), digests
