"""`drivetrain replay inspect FILE`: what a replay file holds."""

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Annotated, Any, cast

import tyro

from drivetrain.cli.flags import read_flags
from drivetrain.core.errors import InvalidInput
from drivetrain.core.paths import given_path
from drivetrain.core.printable import printable
from drivetrain.core.words import size
from drivetrain.replay.inspection import FileReport, Spread, inspect

_BAR_WIDTH = 40


@dataclass(frozen=True, kw_only=True)
class _Flags:
    """Say what is in a replay file: settings, fields, saves, priorities, rewards. Nothing is loaded."""

    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Written by Replay.save; of a run, RUN/checkpoint/replay-N."""
    json: bool = False
    """Print it as JSON, with null where there are no numbers."""


def run(argv: list[str]) -> int:
    """Choose what to do with replay files, and do it."""
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return 0 if argv else 2
    if argv[0] not in VERBS:
        raise InvalidInput(f"drivetrain replay: there is no {argv[0]!r}: choose from {', '.join(VERBS)}")
    return VERBS[argv[0]][0](argv[1:])


def usage() -> str:
    """The help text: one line per verb."""
    lines = [f"  {verb}  {summary}" for verb, (_, summary) in VERBS.items()]
    return "\n".join(["usage: drivetrain replay VERB FILE ...", "", *lines])


def run_inspect(argv: list[str]) -> int:
    """Print what is in a file."""
    flags = read_flags(_Flags, argv, prog="drivetrain replay inspect")
    file = given_path("FILE", flags.file, "the path of a file")
    if file.is_dir():
        raise InvalidInput(
            f"FILE: expected a file that Replay.save wrote, got the folder {str(file)!r}; that of a run of "
            "`drivetrain train` is RUN/checkpoint/replay-N, with the N that is there"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a part that was not finished: the report tells
        report = inspect(file)
    print(json.dumps(_without_nan(asdict(report)), indent=2) if flags.json else as_text(report))
    return 0


VERBS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "inspect": (run_inspect, "what a file holds: settings, fields, saves, priorities, rewards"),
}


def as_text(report: FileReport) -> str:
    """The report as people read it."""
    fill = f"{report.num_rows} of {report.capacity} rows ({report.num_rows / report.capacity:.1%})"
    names = [printable(field["name"]) for field in report.fields]
    width = max(map(len, names))
    lines = [
        f"{report.path}: replay file of format {report.version}, {size(report.nbytes)}",
        "",
        f"fill      {fill}, {report.num_inserted} ever inserted",
        f"alpha     {report.alpha:g} now",
        "settings  " + ", ".join(f"{name} {value}" for name, value in report.settings.items() if name != "capacity"),
        "",
        f"fields    {size(sum(f['nbytes'] for f in report.fields if not f['is_shared']))} per row"
        + ("; what is shared is stored once" if any(f["is_shared"] for f in report.fields) else ""),
        *(
            f"  {name:{width}}  {field['dtype']}{field['shape'] or ''}  {size(field['nbytes'])}"
            + ("  shared" if field["is_shared"] else "")
            for name, field in zip(names, report.fields, strict=True)
        ),
        "",
        *_parts(report),
        "",
        *_priorities(report),
        "",
        f"rewards   {_spread(report.rewards)}",
        f"ends      {report.num_terminated} rows terminated, {report.num_truncated} truncated",
    ]
    return "\n".join(map(printable, lines))


def _parts(report: FileReport) -> list[str]:
    lines = [
        f"saves     {len(report.parts)}; {report.dead_share:.1%} of what they wrote is replaced, or shown by no row"
    ]
    for number, part in enumerate(report.parts, 1):
        counts = f"{part['num_rows']} rows, {part['num_leaves']} changed priorities"
        if part["num_frames"]:
            counts += f", {part['num_frames']} frames"
        lines.append(f"  {number}  {size(part['nbytes'])}: {counts}")
    if report.num_left_out:
        lines.append(f"  {size(report.num_left_out)} of a save that was not finished")
    return lines


def _priorities(report: FileReport) -> list[str]:
    if report.priorities is None or report.histogram is None:
        is_empty = report.settings["prioritized"] and not report.num_rows
        return ["priorities: none, for there are no rows" if is_empty else "priorities: none are kept"]
    edges, counts = report.histogram.edges, report.histogram.counts
    labels = [f"{low:.3g} .. {high:.3g}" for low, high in pairwise(edges)]
    width, most, digits = max(map(len, labels)), max(counts), len(str(max(counts)))
    bars = ["#" * math.ceil(_BAR_WIDTH * count / most) for count in counts]
    return [
        f"priorities  {_spread(report.priorities)}",
        *(
            f"  {label:>{width}}  {count:>{digits}}  {bar}".rstrip()
            for label, count, bar in zip(labels, counts, bars, strict=True)
        ),
    ]


def _spread(spread: Spread) -> str:
    if not spread.count:
        return "none"
    return f"{spread.minimum:.4g} .. {spread.maximum:.4g}, mean {spread.mean:.4g}"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(inner) for name, inner in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in cast(list[Any], value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value
