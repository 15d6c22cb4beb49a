"""Bars of the page: recorded time by operation, and corrected against recorded time with its interval.

shares -> Chart; runs are lines below each other
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape

from drivetrain.scope.report.amounts import brief, part, seconds
from drivetrain.scope.report.chart import Bar, Chart, Line, Row, unit_of_time
from drivetrain.scope.report.shares import Share
from drivetrain.scope.sites import NATIVE

LEAST_SHARE = 0.002
"""Of the longest bar: what is shorter in all runs would be a line of the background, and stands in the table only."""
_SHADES = {
    "python": ("in Python", 1.0),
    "native": ("in native code", 0.65),
    "else": ("waiting, or anything else", 0.35),
}
_HOW_TO_READ = (
    "Bars are corrected time, error bars the interval that it lies in, outlines what was recorded. Shorter ones are in "
    "the table only."
)


def of_operations(shares: Sequence[Share], colors: Mapping[str, str]) -> str:
    """Recorded time by operation; parts of a bar are classes of time, the more native the paler."""
    found: dict[str, list[Share]] = defaultdict(list)
    for share in shares:
        found[share.operation].append(share)
    sums = {name: sum(share.raw_ns for share in mine) for name, mine in found.items()}
    busy, longest = sum(sums.values()), max(sums.values(), default=0)
    rows: list[Row] = []
    for name in sorted(sums, key=lambda name: -sums[name]):
        bars = _classes(found[name], colors[name], busy)
        line = Line(bars=bars, value=part(sums[name], busy))
        rows.append(Row(label=f"{brief(name)}, {seconds(sums[name])}", lines=[line]))
    unit, per = unit_of_time(longest)
    chart = Chart(says="Recorded time by operation", rows=rows, unit=unit, per=per).render()
    return chart and chart + _legend()


def _classes(shares: Sequence[Share], color: str, busy: int) -> list[Bar]:
    bars: list[Bar] = []
    start = 0
    for share in sorted(shares, key=lambda share: (-_shade(share)[1], -share.raw_ns)):
        says = f"{brief(share.operation)}, {share.time_class}: {seconds(share.raw_ns)}, {part(share.raw_ns, busy)}"
        stop = start + share.raw_ns
        bars.append(Bar(start=start, stop=stop, color=color, opacity=_shade(share)[1], says=says))
        start = stop
    return bars


def _shade(share: Share) -> tuple[str, float]:
    kind = "native" if share.time_class in NATIVE else share.time_class
    return _SHADES.get(kind, _SHADES["else"])


def _legend() -> str:
    items = "".join(
        f'<li><i style="background:currentColor;opacity:{opacity}"></i>{said}</li>'
        for said, opacity in _SHADES.values()
    )
    return f"<ul>{items}</ul>"


def render(runs: Mapping[str, Sequence[Share]], colors: Mapping[str, str]) -> str:
    """Corrected against recorded time of one or several runs on one scale.

    Args:
        runs: What a line is called (empty for the only run) -> its shares.
        colors: Of operations.
    """
    found = {name: {(s.operation, s.time_class): s for s in shares} for name, shares in runs.items()}
    every = [share for shares in found.values() for share in shares.values()]
    longest = max((_reach(share) for share in every), default=0.0)
    keys = dict.fromkeys(
        (share.operation, share.time_class)
        for share in sorted(every, key=lambda share: -share.corrected_ns)
        if _reach(share) > LEAST_SHARE * longest
    )
    rows = [
        Row(
            label=", ".join(map(brief, key)),
            lines=[_line(name, shares.get(key), colors[key[0]]) for name, shares in found.items()],
        )
        for key in keys
    ]
    unit, per = unit_of_time(longest)
    says = "Corrected time by operation and class, with intervals, against recorded time"
    chart = Chart(says=says, rows=rows, unit=unit, per=per).render()
    return chart and f'{chart}<p class="quiet">{escape(_HOW_TO_READ)}</p>'


def _reach(share: Share) -> float:
    """How far from 0 anything is that is drawn of it."""
    return max(abs(share.high_ns), abs(share.low_ns), abs(share.corrected_ns), share.raw_ns)


def _line(name: str, share: Share | None, color: str) -> Line:
    if share is None:
        return Line(name=name, value="none")
    value = seconds(share.corrected_ns)
    says = (
        f"{f'{name}: ' if name else ''}{brief(share.operation)}, {share.time_class}: {value}, between "
        f"{seconds(share.low_ns)} and {seconds(share.high_ns)}; recorded {seconds(share.raw_ns)}"
    )
    bar = Bar(start=min(0.0, share.corrected_ns), stop=max(0.0, share.corrected_ns), color=color, says=says)
    interval = (share.low_ns, share.high_ns)
    return Line(name=name, bars=[bar], value=value, interval=interval, outline=share.raw_ns)
