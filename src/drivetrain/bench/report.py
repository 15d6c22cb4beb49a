"""The JSON that every `drivetrain bench` writes: what ran, where, how often, and how we compare.

    Report
    |-- origin: machine, versions, commit, command   where it ran, and how
    |-- weaknesses                              what the numbers do not show; read first
    |-- skipped                                 peers that did not run, and why
    `-- cases -> Case: ours, peers, ratio, targets, and the samples behind each value

A number without its commit, machine and command is not worth keeping.
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from drivetrain.bench.machine import Origin
from drivetrain.core.aside import save_text

FORMAT = "drivetrain-bench"
FORMAT_VERSION = 2  # 1: promises were a mapping "goal" of peer to ratio
BEST_PEER = "best peer"


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A peer that did not run: named with the reason, never silently absent."""

    name: str
    reason: str
    remedy: str


EVERYTHING, INTERRUPTED = "everything that is missing", "the run was interrupted"
"""What came behind Ctrl-C, and why it is missing."""


def left_out(failed: Mapping[str, str]) -> list[Skipped]:
    """What failed, by name, with the reasons, and how to find out more."""
    return [Skipped(name=name, reason=reason, remedy="run it alone to see more") for name, reason in failed.items()]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A ratio that we aim at in a case.

    Attributes:
        against: A peer, a reference of the case, or BEST_PEER: whoever of the peers is ahead.
        aim: The ratio.
        form: "ahead": we want to be at least `aim` times ahead of it. "within": it may be at most
            `aim` times ahead of us; for what nobody can beat.
    """

    against: str
    aim: float
    form: Literal["ahead", "within"] = "ahead"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One quantity, measured on our side and on the peers' in the same run.

    Attributes:
        name: What was measured, unique in its report.
        unit: Unit of every value of the case, such as "CPU-s".
        better: Which direction is ahead.
        samples: Contender -> one value per seed or round; ours under the name "ours".
        group: Heading of the table that the case belongs to.
        references: As `samples`, of what is no peer: a floor, or ourselves in another situation.
        targets: What we aim at.
        smallest: Contender -> its smallest single value, where that is not the smallest sample.
        cpu: Contender -> median CPU time behind one unit of work, in the unit of the case.
        notes: What a reader has to know to read the numbers right.
        details: Contender -> counts and side measurements, free of format.
    """

    name: str
    unit: str
    better: Literal["lower", "higher"]
    samples: Mapping[str, Sequence[float]]
    group: str = ""
    references: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])
    targets: Sequence[Target] = ()
    smallest: Mapping[str, float] = field(default_factory=dict[str, float])
    cpu: Mapping[str, float] = field(default_factory=dict[str, float])
    notes: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def value(self, contender: str) -> float | None:
        """Median of a contender's or reference's samples; None where it has none."""
        samples = self.samples.get(contender) or self.references.get(contender)
        return statistics.median(samples) if samples else None

    def peers(self) -> dict[str, float]:
        """Median of each peer that has samples."""
        return medians({name: samples for name, samples in self.samples.items() if name != "ours"})

    def ratios(self) -> dict[str, float]:
        """How far ahead we are of each peer: above 1 when we are ahead."""
        known = {name: ahead(self.value("ours"), value, self.better) for name, value in self.peers().items()}
        return {name: ratio for name, ratio in known.items() if ratio is not None}

    def ratio_against(self, name: str) -> float | None:
        """How far ahead we are of a peer, a reference or BEST_PEER; None without both values."""
        if name == BEST_PEER:
            return min(self.ratios().values(), default=None)
        return ahead(self.value("ours"), self.value(name), self.better)

    def outcome(self, target: Target) -> dict[str, Any]:
        """A target and what became of it: `met` is None where it could not be measured."""
        ratio = self.ratio_against(target.against)
        if target.form == "within":
            got = 1 / ratio if ratio else None
            met = None if got is None else got <= target.aim
        else:
            got = ratio
            met = None if got is None else got >= target.aim
        return {**asdict(target), "got": got, "met": met}

    def as_json(self) -> dict[str, Any]:
        """The case as the design's contract has it, followed by what is behind the values."""
        everybody = {**self.samples, **self.references}
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": self.value("ours"),
            "peers": self.peers(),
            "ratio": self.ratio_against(BEST_PEER),
            "ratios": self.ratios(),
            "group": self.group,
            "better": self.better,
            "references": medians(self.references),
            "targets": [self.outcome(target) for target in self.targets],
            "minima": {name: min(samples) for name, samples in everybody.items() if samples} | dict(self.smallest),
            "cpu": dict(self.cpu),
            "samples": {name: list(samples) for name, samples in everybody.items()},
            "notes": list(self.notes),
            "details": dict(self.details),
        }


def medians(samples: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Median of each that has samples."""
    return {name: statistics.median(values) for name, values in samples.items() if values}


def ahead(ours: float | None, peer: float | None, better: Literal["lower", "higher"]) -> float | None:
    """The ratio of two values, above 1 when ours is ahead; None without both, or by zero."""
    if ours is None or peer is None:
        return None
    numerator, denominator = (peer, ours) if better == "lower" else (ours, peer)
    return numerator / denominator if denominator else None


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything one `drivetrain bench` command found out."""

    title: str
    origin: Origin
    weaknesses: Sequence[str]
    cases: Sequence[Case]
    skipped: Sequence[Skipped] = ()

    def as_json(self) -> dict[str, Any]:
        """The document that `--json` writes."""
        document = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "title": self.title,
            **asdict(self.origin),
            "weaknesses": list(self.weaknesses),
            "skipped": [asdict(peer) for peer in self.skipped],
            "cases": [case.as_json() for case in self.cases],
        }
        return _finite(document)


def _finite(value: Any) -> Any:
    """None for numbers that JSON does not have, as of a peer whose policy has come to NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in cast("Mapping[str, Any]", value).items()}
    return [_finite(entry) for entry in cast("Sequence[Any]", value)] if isinstance(value, list | tuple) else value


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document so that a reader sees the old file or the new one, never half of it."""
    save_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")
