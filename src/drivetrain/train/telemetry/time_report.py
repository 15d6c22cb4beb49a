"""Where the time of a run went: report.html in its folder, and the table that `drivetrain train` ends with.

RUN/time/0, 1, ... -> Totals -> RUN/report.html; what the processes waited for, in words
"""

from pathlib import Path

import rich.console

from drivetrain.core.aside import save_text
from drivetrain.scope.report import totals_page, totals_terminal
from drivetrain.scope.report.amounts import seconds
from drivetrain.scope.report.console import path_shown
from drivetrain.scope.report.totals_rows import by_group, waited
from drivetrain.scope.totals import Totals
from drivetrain.train.run_dir.folder import label_of
from drivetrain.train.telemetry.recording import SEQUENTIAL, SUPERVISOR, sessions

REPORT = "report.html"
CONFIG = "config.json"
_MUCH = 0.2
"""Share of its time from which on a process is said to wait."""
_ACTING = ("simulation", "inference")
_FEWER_UPDATES = "a smaller network, fewer and larger batches, or several learners"
_REMEDIES = {
    "checkpoint": "fewer checkpoints (--checkpoint-interval-s), or ones without the replay",
    "metrics": "rows less often (--log-interval-steps)",
    **dict.fromkeys(("starting", "other", "garbage collection", "recording")),
}
"""What may help a learner that does one thing most, None where no setting does; else fewer updates."""
_EVALUATING = ", evaluation"
"""How labels of what one process did for evaluations end."""
_FEWER_EVALUATIONS = (
    "evaluations less often (--eval-interval-steps), or of fewer episodes (--eval-episodes, --final-eval-episodes)"
)


def load(run_dir: Path) -> Totals | None:
    """What all sessions of a run recorded; None where nothing was."""
    folders = sessions(run_dir)
    return Totals.load(folders) if folders else None


def write(run_dir: Path, file: Path | None = None) -> None:
    """Write the page into the run's folder, or to another file.

    Raises:
        OSError: It cannot be written.
        FileFormatError: A recording, or config.json, is damaged.
    """
    totals = load(run_dir)
    if totals is not None:
        title = f"Where the time of {label_of(run_dir)} went"
        text = totals_page.render(totals, title, facts(totals), words(totals))
        save_text(file or run_dir / REPORT, text, errors="xmlcharrefreplace")  # names need not be text in any encoding


def is_of_run(folder: Path) -> bool:
    """Whether a folder is that of a training run which recorded where its time went."""
    return (folder / CONFIG).is_file() and bool(sessions(folder))


def show(run_dir: Path, console: rich.console.Console) -> None:
    """Print the table, what it says, and where the page is; nothing where nothing was recorded."""
    totals = load(run_dir)
    if totals is None:
        return
    console.print(f"where the time went: {facts(totals)}", highlight=False)
    console.print(totals_terminal.table(totals))
    for text in words(totals):
        console.print(text, highlight=False, soft_wrap=True)
    if (run_dir / REPORT).exists():
        console.print(f"more: {path_shown(run_dir / REPORT, console)}", highlight=False, markup=False, soft_wrap=True)


def facts(totals: Totals) -> str:
    """How much was recorded, in one line."""
    again = f" in {len(totals.sessions)} sessions" if len(totals.sessions) > 1 else ""
    return f"{seconds(totals.wall_ns)} of wall time{again}, {len(totals.processes)} processes".replace(
        " 1 processes", " 1 process"
    )


def words(totals: Totals) -> list[str]:
    """Which side the run waits for, what that side does most, and what could be done about it."""
    groups = by_group(totals)
    if SEQUENTIAL not in groups:
        return _beside(totals)
    if SUPERVISOR not in groups:
        return [f"{_sequential(totals)}{_advice(totals)}"]
    return [f"{_sequential(totals)} That was one part of the run; the other had processes:", *_beside(totals)]


def _beside(totals: Totals) -> list[str]:
    """Of actors and learner in processes of their own."""
    if "actors" not in by_group(totals):
        return ["The run ended before its actors were at work."]
    actors, learner = waited(totals, "actors"), waited(totals, "learner")
    said = f"actors wait {actors:.0%} of their time, the learner {learner:.0%} of its"
    if actors >= _MUCH and learner < _MUCH:
        remedy = _remedy(totals, "learner")
        return [
            f"The run waits for the learner: {said}.",
            f"Of its time most is {_most(totals, 'learner')}.",
            f"More actors would not help{f'; {remedy} may' if remedy else ''}.",
        ]
    if learner >= _MUCH and actors < _MUCH:
        advice = "More actors help while there are cores for them (--num-actors), or more environments for each."
        return [f"The run waits for the actors: {said}.", f"Of their time most is {_most(totals, 'actors')}.", advice]
    if actors >= _MUCH:
        return [f"Actors and learner wait for each other in turn: {said}."]
    return [f"Neither side waits much for the other: {said}. All of them would have to be faster, or on more cores."]


def _sequential(totals: Totals) -> str:
    return f"One process did everything; most of its time is {_most(totals, SEQUENTIAL)}."


def _advice(totals: Totals) -> str:
    """For one process; a sentence that follows another, or "" where there is none."""
    if _what(totals, SEQUENTIAL) in _ACTING:
        return " Actors, processes of their own, would share that (--num-actors)."
    remedy = _remedy(totals, SEQUENTIAL)
    return f" {remedy[0].upper()}{remedy[1:]} may help." if remedy else ""


def _remedy(totals: Totals, group: str) -> str | None:
    """What may help a group that learns; None: nothing that could be set."""
    what = _what(totals, group)
    return _FEWER_EVALUATIONS if what.endswith(_EVALUATING) else _REMEDIES.get(what, _FEWER_UPDATES)


def _most(totals: Totals, group: str) -> str:
    """What a group did most, and how much of all that it did."""
    sums, what = _done(totals, group), _what(totals, group)
    return f"{what} ({sums[what] / sum(sums.values()):.0%} of what it did)" if sums else what


def _what(totals: Totals, group: str) -> str:
    """What a group did most."""
    sums = _done(totals, group)
    return max(sums, key=lambda name: sums[name], default="starting")


def _done(totals: Totals, group: str) -> dict[str, int]:
    """What a group did and how long, waiting apart, after it had started."""
    sums = by_group(totals).get(group, {})
    return {what: ns for what, ns in sums.items() if what not in ("waiting", "starting") and ns}
