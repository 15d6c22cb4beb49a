"""What earlier programs on this machine said a span costs, as a multiple of what it costs alone.

A file of the user's cache: machine -> instrument -> the last programs' multiples with standard errors. A session
copies it when it begins, so that what is made of its recording never changes. Needs the standard library alone.
"""

import contextlib
import json
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from drivetrain.core.caches import user_cache

_MOST = 30
_LARGEST = 1e6  # beyond it nobody measured; NaN neither
_FORMAT = 1
_NAME = "scope-costs.json"


class Multiple(NamedTuple):
    """A span's cost in a program over its cost alone."""

    mean: float
    sd: float


PUBLISHED = Multiple(1.3, 0.21)
"""Where this machine has said nothing yet. Micro-benchmarks of such costs were off by -41% to +12% inside programs
(design/scope.md): 0.89 to 1.7 times, read as a 95% interval."""
LEAST_SD = 0.05
"""Programs that agree by chance do not make the next one certain."""


def machine() -> str:
    """What a cost depends on that stays the same: the processor and the interpreter."""
    model = platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{model}, {sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def recall() -> dict[str, Multiple]:
    """Per instrument what to expect of the next program on this machine; empty where nothing is known."""
    said = _read(user_cache(_NAME)).get(machine(), {})
    return {instrument: expected(rows) for instrument, rows in said.items() if rows}


def expected(said: list[tuple[float, float]]) -> Multiple:
    """Of the next program, from multiples and their standard errors: their middle, and the spread between programs.

    What is published counts as one more: a program that tells nothing, because the machine was busy, is no reason to
    expect anything else.
    """
    middle = _middle([*said, PUBLISHED])
    between = [max((mean - middle) ** 2 - se**2, 0.0) for mean, se in said]
    spread = (sum(between) + PUBLISHED.sd**2) / len(said)
    error = 1 / (1 / PUBLISHED.sd**2 + sum(1 / (se**2 + spread + LEAST_SD**2) for _, se in said))
    return Multiple(middle, (spread + error + LEAST_SD**2) ** 0.5)


def _middle(said: list[tuple[float, float]]) -> float:
    """Their median, each weighing as much as it is precise; no more than programs differ anyway."""
    weights = [(mean, 1 / (se**2 + PUBLISHED.sd**2)) for mean, se in sorted(said)]
    left = sum(weight for _, weight in weights) / 2
    for mean, weight in weights:
        left -= weight
        if left <= 0:
            return mean
    return weights[-1][0]


def remember(multiples: Mapping[str, tuple[float, float]]) -> None:
    """Add what a program said; a cache that cannot be written is none."""
    from drivetrain.core.aside import save_text  # which processes that only recall do without

    path = user_cache(_NAME)
    known = _read(path)
    own = known.setdefault(machine(), {})
    for instrument, (mean, se) in multiples.items():
        own[instrument] = [*own.get(instrument, []), (mean, se)][-_MOST:]
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        save_text(path, json.dumps({"format": _FORMAT, "machines": known}, indent=1) + "\n")


def _read(file: Path) -> dict[str, dict[str, list[tuple[float, float]]]]:
    try:
        found = json.loads(file.read_text())
        if found["format"] != _FORMAT:
            return {}
        return {
            name: {
                instrument: [(float(m), float(se)) for m, se in rows if abs(m) <= _LARGEST and 0 <= se <= _LARGEST]
                for instrument, rows in said.items()
            }
            for name, said in found["machines"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # absent, or of somebody else's making
        return {}
