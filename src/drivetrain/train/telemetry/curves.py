"""Learning curves: evaluations of runs by environment steps, and what several seeds say together.

RUN/metrics.jsonl -> Evaluations of one run -> those alike but for the seed -> Curve
"""

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.errors import FileFormatError
from drivetrain.core.paths import resolved
from drivetrain.train.run_dir.folder import label_of, require_run_dir, seed_runs, settings_of
from drivetrain.train.telemetry.metrics import read_rows

_NUM_POINTS = 200
_NUM_RESAMPLES = 2_000


class Evaluations(NamedTuple):
    """The evaluations of one run, in the order of its steps."""

    label: str
    """Algorithm and environment."""
    settings: dict[str, str]
    """What else decides what is learned, by name: runs alike in label and settings are seeds of one thing."""
    num_steps: NDArray[np.float64]
    """[evaluations] environment steps."""
    returns: NDArray[np.float64]
    """[evaluations] mean return of each."""


class Curve(NamedTuple):
    """The mean over runs, with an interval; [points] each."""

    num_steps: NDArray[np.float64]
    """Environment steps."""
    mean: NDArray[np.float64]
    """Mean over the runs."""
    low: NDArray[np.float64]
    """Lower end of the 95% interval; the mean where there is one run."""
    high: NDArray[np.float64]
    """Upper end."""


class Curves(NamedTuple):
    """What several runs say."""

    by_label: dict[str, tuple[Curve, int]]
    """The curve of each label, and of how many runs it is."""
    left_out: dict[Path, str]
    """Runs that are in no curve, and why, as in "has no evaluations yet"."""


def evaluations(run_dir: Path) -> Evaluations:
    """The evaluations in a run's folder; none where it was not evaluated yet.

    Raises:
        InvalidInput: It is no run's folder.
        FileFormatError: Its files are damaged.
    """
    require_run_dir(run_dir)
    label = label_of(run_dir)
    file = run_dir / "metrics.jsonl"
    rows = read_rows(file) if file.exists() else []  # one that ended before its processes had begun has none
    found = {row["num_steps"]: row["eval_return"] for row in rows if "eval_return" in row}
    for value in found.values():
        if type(value) not in (int, float) or not abs(value) < np.inf:
            raise FileFormatError(f"{file}: expected finite numbers as eval_return, got {value!r}")
    num_steps = np.array(sorted(found), np.float64)
    return Evaluations(
        label, settings_of(run_dir), num_steps, np.array([found[step] for step in sorted(found)], np.float64)
    )


def curve(runs: Sequence[Evaluations]) -> Curve:
    """The mean of runs over the steps that all of them have, which are some, and its 95% bootstrap interval over runs.

    Between two evaluations a run's return is taken to change linearly. Runs are drawn with replacement,
    2,000 times, in the same way at every point; the interval is between the 2.5th and 97.5th percentile of
    the means.
    """
    first, last = _in_common(runs)
    shares = np.arange(_NUM_POINTS if first < last else 1) / (_NUM_POINTS - 1)
    num_steps = np.asarray(first + shares * (last - first), np.float64)
    values = np.stack([np.interp(num_steps, run.num_steps, run.returns) for run in runs])
    picks = np.random.default_rng(0).integers(0, len(runs), (_NUM_RESAMPLES, len(runs)))
    counts = np.stack([np.bincount(pick, minlength=len(runs)) for pick in picks]) / len(runs)
    low, high = np.percentile(counts @ values, [2.5, 97.5], axis=0)
    return Curve(num_steps, values.mean(0), low, high)


def curves(run_dirs: Sequence[Path]) -> Curves:
    """One curve per algorithm, environment and settings; a folder of several seeds stands for their runs.

    Where settings differ, they are in the labels. Left out are runs without evaluations, runs that have not finished
    where others of their curve have, and those that have no steps in common with others.

    Raises:
        InvalidInput: One is no run's folder.
        FileFormatError: No run was evaluated yet, or files are damaged.
    """
    found = (run for path in run_dirs for run in seed_runs(path) or [path])
    given = {resolved(run): run for run in found}  # one given twice is one
    runs = {run_dir: evaluations(path) for path, run_dir in given.items()}
    evaluated = {run_dir: run for run_dir, run in runs.items() if len(run.num_steps)}
    if not evaluated:
        raise FileFormatError(f"{', '.join(map(str, runs))}: there are no evaluations here (yet)")
    left_out = {run_dir: "has no evaluations yet" for run_dir in runs if run_dir not in evaluated}
    groups: dict[str, dict[Path, Evaluations]] = {}
    for run_dir, run in evaluated.items():
        alike = [other.settings for other in evaluated.values() if other.label == run.label]
        told = [f"{name} {run.settings.get(name, 'unknown')}" for name in _different(alike)]
        groups.setdefault(", ".join([run.label, *told]), {})[run_dir] = run
    by_label: dict[str, tuple[Curve, int]] = {}
    for label, group in groups.items():
        kept = _kept(group, left_out)
        by_label[label] = (curve(kept), len(kept))
    return Curves(by_label, left_out)


def _kept(runs: dict[Path, Evaluations], left_out: dict[Path, str]) -> list[Evaluations]:
    """Those of one thing that a mean can be of; the others are noted among those left out."""
    finished = {run_dir: run for run_dir, run in runs.items() if (run_dir / "result.json").exists()}
    kept = finished or dict(runs)  # while none has finished, all say something
    left_out |= {run_dir: "has not finished, as others of its curve have" for run_dir in runs if run_dir not in kept}
    while operator.gt(*_in_common(list(kept.values()))):
        earliest = min(kept, key=lambda run_dir: kept[run_dir].num_steps[-1])
        left_out[earliest] = "was evaluated at no steps in common with others of its curve"
        del kept[earliest]
    return list(kept.values())


def _in_common(runs: Sequence[Evaluations]) -> tuple[float, float]:
    """The first and the last step that all runs have; the first is beyond the last where there are none."""
    return max(run.num_steps[0] for run in runs), min(run.num_steps[-1] for run in runs)


def _different(settings: Sequence[dict[str, str]]) -> list[str]:
    """The names of those that are not the same everywhere; runs of earlier versions may be without some."""
    names = dict.fromkeys(name for of_run in settings for name in of_run)
    return [name for name in names if len({of_run[name] for of_run in settings if name in of_run}) > 1]
