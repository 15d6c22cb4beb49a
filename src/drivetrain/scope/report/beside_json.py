"""Several runs side by side, as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from drivetrain.scope.report import beside_gpu
from drivetrain.scope.report.beside import Run, keys
from drivetrain.scope.report.shares import Share


def as_json(runs: Sequence[Run]) -> dict[str, Any]:
    """The document of `drivetrain report A B --json`: rows side by side, GPUs, and each run as it is by itself."""
    rows: list[dict[str, Any]] = [
        {
            "operation": operation,
            "class": time_class,
            "runs": {
                run.name: {**_numbers(share), "per_step_ns": run.per_step_ns(share)}
                for run in runs
                if (share := run.shares.get((operation, time_class))) is not None
            },
        }
        for operation, time_class in keys(runs)
    ]
    return {"rows": rows, "gpu": beside_gpu.as_json(runs), "runs": {run.name: run.profile.as_json() for run in runs}}


def _numbers(share: Share) -> dict[str, float | None]:
    """Null where nothing is corrected, as in the rows of the run alone."""
    return {
        name: value if share.is_corrected or name == "raw_ns" else None
        for name, value in asdict(share).items()
        if name.endswith("_ns")
    }
