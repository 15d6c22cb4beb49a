"""Where the kept runs of a page are from: commands, commits with the runs made at each, machines, versions."""

from collections.abc import Iterator, Sequence

from drivetrain.bench.learning.case import LearningCase
from drivetrain.bench.learning.records import Run
from drivetrain.bench.learning.sides import Side
from drivetrain.bench.table import plain

Group = tuple[LearningCase, Side, Sequence[Run]]
"""The runs of one side of a case, by seed."""


def provenance(groups: Sequence[Group]) -> list[str]:
    """Commands, commits, machines and versions behind the runs, with the number of runs; of a commit, which."""
    runs = [run for _, _, kept in groups for run in kept]
    lines: list[str] = []
    for heading, texts in (
        ("Command", [f"`{run['command']}`" for run in runs]),
        ("Commit", [f"`{run['commit']}`" for run in runs]),
        ("Machine", [machine_of(run) for run in runs]),
        ("Versions", [", ".join(f"{name} {version}" for name, version in run["versions"].items()) for run in runs]),
    ):
        for text in dict.fromkeys(texts):
            which = f": {'; '.join(made_at(text.strip('`'), groups))}" if heading == "Commit" else ""
            lines.append(f"{heading}: {text} ({texts.count(text)} runs{which})")
    return lines


def made_at(commit: str, groups: Sequence[Group]) -> Iterator[str]:
    """The runs made at a commit, such as "dqn CartPole-v1 (SB3) 1..5": old code's must not pass for those of new."""
    for case, side, kept in groups:
        if seeds := [run["seed"] for run in kept if run["commit"] == commit]:
            yield f"{case.name} ({side.title}) {in_ranges(seeds)}"


def in_ranges(seeds: Sequence[int]) -> str:
    """Ascending seeds, neighbours as a range: "1..3, 7"."""
    ranges: list[list[int]] = []
    for seed in seeds:
        if ranges and seed == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], seed]
        else:
            ranges.append([seed])
    return ", ".join("..".join(map(str, each)) for each in ranges)


def machine_of(run: Run) -> str:
    """The machine of a run, without its load, which changes nothing here."""
    return "; ".join(f"{name} {plain(value)}" for name, value in run["machine"].items() if "load" not in name)
