"""What somebody has changed in a run's config.json since its checkpoint, which a resume does not take from there."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.train.config import TrainConfig

_FOLLOWING = frozenset({"envs_per_actor", "run_dir"})
"""What follows from the number of actors, and from where the run's folder lies, which may be a copy."""


def edited(run_dir: Path, held: TrainConfig, again: Mapping[str, Any], *, taken: Collection[str]) -> str | None:
    """A sentence about settings that config.json has otherwise than the checkpoint does, whose hold; None: none.

    Args:
        run_dir: The run's folder.
        held: What the run goes on with.
        again: Settings of the run that were Python objects, see `TrainConfig.from_dict`.
        taken: Names of settings that a run that goes on may have otherwise.
    """
    path = run_dir / "config.json"
    try:
        written = _flat(TrainConfig.load(path, **again).to_dict())
    except (FileFormatError, InvalidInput) as error:
        return f"the checkpoint's settings hold: {' '.join(str(error).split())}"
    kept = _flat(held.to_dict())
    may_differ = {*taken, *_FOLLOWING}
    names = [name for name in {**kept, **written} if name not in may_differ and written.get(name) != kept.get(name)]
    if not names:
        return None
    both = ", ".join(f"{name} {json.dumps(kept.get(name))} (not {json.dumps(written.get(name))})" for name in names)
    return f"{path} has other settings than the checkpoint, and the checkpoint's hold: {both}"


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings by name, with the algorithm and the environment."""
    flat = {name: settings[name] for name in ("algo", "env")}
    for name, part in settings.items():
        flat |= {} if name in flat else part
    return flat
