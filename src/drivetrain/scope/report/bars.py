"""Bars of the page: corrected time by operation and class, its interval a mark on the bar; runs below each other."""

from collections.abc import Mapping, Sequence
from html import escape

from drivetrain.scope.report.amounts import seconds
from drivetrain.scope.report.shares import Share

LEAST_SHARE = 0.002
"""Of the longest bar: what is shorter in all runs would be a line of the background, and stands in the table only."""


def render(runs: Mapping[str, Sequence[Share]], colors: Mapping[str, str]) -> str:
    """The bars of one or several runs on one scale.

    Args:
        runs: What a bar is called (empty for the only run) -> its shares.
        colors: Of operations.
    """
    found = {name: {(s.operation, s.time_class): s for s in shares} for name, shares in runs.items()}
    every = [share for shares in found.values() for share in shares.values()]
    longest = max((max(share.high_ns, share.corrected_ns) for share in every), default=0.0)
    if longest <= 0:
        return ""
    keys = dict.fromkeys(
        (share.operation, share.time_class)
        for share in sorted(every, key=lambda share: -share.corrected_ns)
        if share.corrected_ns > LEAST_SHARE * longest
    )
    rows = "".join(
        f'<div class="what"><p><i style="background:{colors[key[0]]}"></i>{escape(", ".join(key))}</p>'
        + "".join(_bar(name, shares.get(key), colors[key[0]], longest) for name, shares in found.items())
        + "</div>"
        for key in keys
    )
    return (
        f'<div class="bars">{rows}</div>'
        '<p class="quiet">Bars are corrected time, marks on them the interval that it lies in. Shorter ones, and what '
        "is corrected to less than nothing, are in the table only.</p>"
    )


def _bar(name: str, share: Share | None, color: str, longest: float) -> str:
    letter = f"<b>{escape(name)}</b>" if name else ""
    if share is None:
        return f'<div class="run">{letter}<span class="track"></span><em>none</em></div>'
    low, middle, high = (max(0.0, x) / longest for x in (share.low_ns, share.corrected_ns, share.high_ns))
    text = f"{seconds(share.corrected_ns)}, between {seconds(share.low_ns)} and {seconds(share.high_ns)}"
    return (
        f'<div class="run">{letter}<span class="track" role="img" aria-label="{text}" title="{text}">'
        f'<span class="fill" style="width:{middle:.3%};background:{color}"></span>'
        f'<span class="mark" style="left:{low:.3%};width:{high - low:.3%}"></span></span>'
        f"<em>{seconds(share.corrected_ns)}</em></div>"
    )
