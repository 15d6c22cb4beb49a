"""The JSON that every `drivetrain bench` writes: what ran, where, how often, and how we compare.

    Report
    |-- machine, versions, commit, command     where it ran, and how
    |-- weaknesses                              what the numbers do not show; read first
    |-- skipped                                 peers that did not run, and why
    `-- cases -> Case: ours, peers, ratio, and the samples behind each value

A number without its commit, machine and command is not worth keeping.
"""

import json
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

FORMAT = "drivetrain-bench"
FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A peer that did not run: named with the reason, never silently absent."""

    name: str
    reason: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Case:
    """One quantity, measured on our side and on the peers' in the same run.

    Attributes:
        name: What was measured, unique in its report.
        unit: Unit of every value of the case, such as "CPU-s".
        better: Which direction is ahead.
        samples: Contender -> one value per seed; ours under the name "ours".
        goal: Peer -> the ratio that we promise against it.
        notes: What a reader has to know to read the numbers right.
        details: Contender -> counts and side measurements, free of format.
    """

    name: str
    unit: str
    better: Literal["lower", "higher"]
    samples: Mapping[str, Sequence[float]]
    goal: Mapping[str, float] = field(default_factory=dict[str, float])
    notes: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def value(self, contender: str) -> float | None:
        """Median over the seeds; None where the contender has no sample."""
        samples = self.samples.get(contender, ())
        return statistics.median(samples) if samples else None

    def peers(self) -> dict[str, float]:
        """Median of each peer that has samples."""
        values = {name: self.value(name) for name in self.samples if name != "ours"}
        return {name: value for name, value in values.items() if value is not None}

    def ratio_against(self, peer: str) -> float | None:
        """How far ahead we are of one peer: above 1 when we are ahead; None without both values."""
        return ahead(self.value("ours"), self.peers().get(peer), self.better)

    def as_json(self) -> dict[str, Any]:
        """The case as the design's contract has it, followed by what is behind the values."""
        ratios = {name: self.ratio_against(name) for name in self.peers()}
        known = [ratio for ratio in ratios.values() if ratio is not None]
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": self.value("ours"),
            "peers": self.peers(),
            "ratio": min(known) if known else None,
            "ratios": ratios,
            "goal": dict(self.goal),
            "better": self.better,
            "minima": {name: min(samples) for name, samples in self.samples.items() if samples},
            "samples": {name: list(samples) for name, samples in self.samples.items()},
            "notes": list(self.notes),
            "details": dict(self.details),
        }


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
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    commit: str
    command: str
    weaknesses: Sequence[str]
    cases: Sequence[Case]
    skipped: Sequence[Skipped] = ()

    def as_json(self) -> dict[str, Any]:
        """The document that `--json` writes."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "title": self.title,
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "commit": self.commit,
            "command": self.command,
            "weaknesses": list(self.weaknesses),
            "skipped": [asdict(peer) for peer in self.skipped],
            "cases": [case.as_json() for case in self.cases],
        }


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document so that a reader sees the old file or the new one, never half of it."""
    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically; its folder must exist."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
