"""The kept runs as a page of Markdown: weaknesses and verdicts first, every run last.

`python -m drivetrain.bench.learning.page learning.json learning.md [sb3|gymnasium]` makes the page again.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from drivetrain.bench.learning.case import LearningCase
from drivetrain.bench.learning.contests import CONTESTS, SB3, Contest
from drivetrain.bench.learning.notes import CONTROL, METHOD, ON_THE_WAY
from drivetrain.bench.learning.provenance import provenance
from drivetrain.bench.learning.records import Run, counting, load
from drivetrain.bench.learning.sides import Side
from drivetrain.bench.learning.summary import (
    TENTHS,
    Comparison,
    compared,
    compared_together,
    on_the_way,
    scores,
    summed_up,
)
from drivetrain.bench.saved import write_page
from drivetrain.bench.table import bullets, markdown_table
from drivetrain.core.errors import FileFormatError
from drivetrain.train.runs.intervals import Estimate, iqm


def as_markdown(runs: Sequence[Run], contest: Contest = SB3) -> str:
    """The page of some kept runs; equal runs give equal pages."""
    comparisons = [found for case in contest.cases for found in compared(runs, case, contest.pairs)]
    controls = [found for case in contest.cases for found in compared(runs, case, contest.control_pairs)]
    sections = [
        f"# {contest.title}",
        "Generated from the kept runs by `drivetrain bench learning`; do not edit.",
        "## Weaknesses first\n\n" + bullets([*verdicts(comparisons), *absent(runs, contest), *contest.weaknesses]),
        "## Returns\n\n" + METHOD,
        table_of_returns(runs, contest),
        table_of_differences(comparisons, contest),
        *together(runs, contest),
        *control_of(controls),
        "## On the way\n\n" + ON_THE_WAY,
        table_of_curves(runs, contest),
        "## Every run\n\nMean return of 100 episodes, by seed.",
        table_of_runs(runs, contest),
        "## Settings\n\n" + bullets([settings_of(case) for case in contest.cases]),
        "## Where and how\n\n" + bullets(provenance(list(sides_with_runs(runs, contest)))),
    ]
    return "\n\n".join(sections) + "\n"


def verdicts(comparisons: Sequence[Comparison]) -> list[str]:
    """How many verdicts there are of each kind."""
    kinds = [comparison.verdict for comparison in comparisons]
    if not kinds:
        return ["There is nothing to compare yet."]
    counts = ", ".join(f"{kind}: {kinds.count(kind)}" for kind in ("parity", "not shown", "behind"))
    named = [f"{c.case.name} ({c.form.title}): {c.verdict}" for c in comparisons if c.verdict != "parity"]
    return [f"Of {len(kinds)} comparisons, {counts}.", *named]


def absent(runs: Sequence[Run], contest: Contest) -> list[str]:
    """Cases without runs of both sides."""
    names = [case.name for case in contest.cases if not compared(runs, case, contest.pairs)]
    return [f"Not compared yet: {', '.join(names)}."] if names else []


def sides_with_runs(runs: Sequence[Run], contest: Contest) -> Iterator[tuple[LearningCase, Side, list[Run]]]:
    """Every case and side that has runs that count."""
    for case in contest.cases:
        for side in contest.sides:
            if kept := counting(runs, case, side.name):
                yield case, side, kept


def table_of_returns(runs: Sequence[Run], contest: Contest) -> str:
    """One line per case and side."""
    rows = [
        [
            case.name,
            side.title,
            *(f"{number:,}" for number in case.work),
            str(len(kept)),
            interval(summed_up(kept), 1),
        ]
        for case, side, kept in sides_with_runs(runs, contest)
    ]
    return markdown_table(["case", "who", "steps", "updates", "runs", "interquartile mean [95%]"], rows)


def table_of_differences(comparisons: Sequence[Comparison], contest: Contest) -> str:
    """One line per case and form."""
    rows = [
        [
            *(c.case.name, c.form.title, interval(c.difference, 1), f"{c.case.margin:.1f}", f"**{c.verdict}**"),
            *(interval(c.late, 1), interval(c.on_the_way, 1)),
        ]
        for c in comparisons
    ]
    header = ["case", "who", f"{contest.difference} [95%]", "margin", "verdict", "late [95%]", "on the way [95%]"]
    return markdown_table(header, rows)


def control_of(controls: Sequence[Comparison]) -> list[str]:
    """What the peer's other form costs itself, and how who has the same form compares with it."""
    if not controls:
        return []
    rows = [
        [
            *(c.case.name, c.form.title, c.peer.title),
            *(interval(estimate, 1) for estimate in (c.difference, c.late, c.on_the_way)),
        ]
        for c in controls
    ]
    header = ["case", "who", "less", "difference [95%]", "late [95%]", "on the way [95%]"]
    return ["### As many environments on both sides\n\n" + CONTROL + "\n\n" + markdown_table(header, rows)]


def together(runs: Sequence[Run], contest: Contest) -> list[str]:
    """Every case at once, on a scale from random actions (0) to a good policy (1)."""
    found = {form: compared_together(runs, form, contest) for form in contest.forms}
    lines = [
        f"{form.title}: {interval(result[0], 3)}, over {', '.join(case.name for case in result[1])}"
        for form, result in found.items()
        if result is not None
    ]
    if not lines:
        return []
    what = contest.difference[0].upper() + contest.difference[1:]
    intro = f"{what} over all cases that have enough runs, with returns scaled to 0 (random) and 1 (good)."
    return ["### All cases together\n\n" + intro + "\n\n" + bullets(lines)]


def table_of_curves(runs: Sequence[Run], contest: Contest) -> str:
    """Returns at each tenth of the steps, one line per case and side."""
    rows = [
        [case.name, side.title, *(f"{value:.0f}" for value in curve_of(kept, case))]
        for case, side, kept in sides_with_runs(runs, contest)
    ]
    return markdown_table(["case", "who", *(f"{tenth:.0%}" for tenth in TENTHS)], rows)


def curve_of(runs: Sequence[Run], case: LearningCase) -> list[float]:
    """Interquartile mean over runs at each tenth of a case's steps."""
    return [float(value) for value in iqm(np.stack([on_the_way(run, case) for run in runs]), axis=0)]


def table_of_runs(runs: Sequence[Run], contest: Contest) -> str:
    """Every run's mean return, one line per case and side."""
    rows = [[case.name, side.title, by_seed(kept)] for case, side, kept in sides_with_runs(runs, contest)]
    return markdown_table(["case", "who", "seed: mean return"], rows)


def by_seed(runs: Sequence[Run]) -> str:
    """Every run's score behind its seed."""
    return ", ".join(f"{run['seed']}: {score:.1f}" for run, score in zip(runs, scores(runs), strict=True))


def interval(found: Estimate, digits: int) -> str:
    """A value with its interval, if it has one."""
    value = f"{found.value:.{digits}f}"
    return value if found.low is None else f"{value} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def settings_of(case: LearningCase) -> str:
    """A case's settings with their source, on one line."""
    settings = ", ".join(
        f"{name} {value}" for name, value in case.conditions()["settings"].items() if value is not None
    )
    return f"**{case.name}**, {case.total_steps:,} steps: {settings}. Source: {case.source}."


def kept_runs(path: Path) -> list[Run]:
    """The runs of a file that has to be there, unlike that of a bench that has not begun.

    Raises:
        FileFormatError: It is absent, or no file of runs.
    """
    if not path.is_file():
        raise FileFormatError(f"{path}: there are no kept runs here")
    return load(path)


if __name__ == "__main__":
    against = CONTESTS.get(sys.argv[3]) if len(sys.argv) > 3 else SB3
    if against is None:
        sys.exit(f"error: expected {' or '.join(CONTESTS)} as the third word, got {sys.argv[3]!r}")
    contest = against
    sys.exit(write_page([*sys.argv[1:3], *sys.argv[4:]], lambda path: as_markdown(kept_runs(path), contest)))
