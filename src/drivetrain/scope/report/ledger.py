"""What recording cost, as the page shows it: in all, and per process and instrument with where each cost is from."""

from html import escape
from typing import Any

from drivetrain.scope.profile import Profile
from drivetrain.scope.report.amounts import seconds
from drivetrain.scope.report.cells import table

_MOST_ROWS = 40
_MEASURED = (
    "In blocks of steps chosen at random, recording was switched off. What blocks with it took longer, per span, is "
    "what a span costs here; it is weighed with what earlier programs on this machine said. "
)
_GIVEN_BACK = "Every span gives back its cost where it was spent, and threads that waited for it wait as much less."


def render(profile: Profile) -> str:
    """Totals, then the costs."""
    overhead = profile.overhead()
    rows = [
        ["events", str(overhead["num_events"])],
        ["dropped", str(overhead["num_dropped"])],
        *_added(overhead),
        ["wall time", seconds(profile.wall_ns)],
    ]
    if (wall := profile.wall) is not None:
        rows += [
            ["wall time without recording", seconds(wall.likely_ns)],
            ["between", f"{seconds(wall.low_ns)} and {seconds(wall.high_ns)}"],
        ]
    ledger: list[dict[str, Any]] = [entry for entry in overhead["costs"] if entry["num_spans"]]
    headings = [
        "process",
        "spans by",
        "spans",
        "cost of a span",
        "while muted",
        "blocks, muted",
        "this run alone",
        "from",
    ]
    left_out = f"<p>{len(ledger) - _MOST_ROWS} more are in the JSON.</p>" if len(ledger) > _MOST_ROWS else ""
    return (
        table(["", ""], rows)
        + f'<p class="quiet">{_words(profile, ledger)}</p>'
        + table(headings, [_row(entry) for entry in ledger[:_MOST_ROWS]], "costs")
        + left_out
    )


def _added(overhead: dict[str, Any]) -> list[list[str]]:
    what = "added by recording, all threads"
    if overhead["total_ns"] is None:
        return [[what, "not identifiable"]]
    between = f"{seconds(overhead['low_ns'])} and {seconds(overhead['high_ns'])}"
    return [[what, seconds(overhead["total_ns"])], ["between", between]]


def _words(profile: Profile, ledger: list[dict[str, Any]]) -> str:
    """Of what there was: blocks that were muted, and something to correct by."""
    measured = _MEASURED if any(entry["num_muted_blocks"] for entry in ledger) else ""
    return measured + (_GIVEN_BACK if profile.wall is not None else "")


def _row(entry: dict[str, Any]) -> list[str]:
    blocks = f"{entry['num_blocks']}, {entry['num_muted_blocks']}"
    what = [escape(entry["process"]), entry["instrument"], str(entry["num_spans"])]
    if entry["recorded_ns"] is None:
        return [*what, "not identifiable", "", blocks, "not identifiable", ""]
    alone = entry["this_run"]
    return [
        *what,
        _with_error(entry["recorded_ns"], entry["recorded_se_ns"]),
        _with_error(entry["disabled_ns"], entry["disabled_se_ns"]),
        blocks,
        "not identifiable" if alone is None else _with_error(alone["ns"], alone["se_ns"]),
        escape(entry["source"]),
    ]


def _with_error(ns: float, se_ns: float) -> str:
    return f"{ns:.0f} ± {1.96 * se_ns:.0f} ns"
