"""drivetrain's own replay, in its trainer or in anybody's program.

The trainer says itself what it does (train/telemetry/recording.py); its environments are Gymnasium's, and its updates
one jitted call: those hooks see them too.
"""

from types import ModuleType

from drivetrain.scope.hooks.patch import record
from drivetrain.scope.sites import Site


def install(module: ModuleType) -> None:
    """Hook the replay."""
    for name in ("sample", "update_priorities"):
        record(vars(module)["Replay"], name, Site(f"Replay.{name}", "replay", "backend"))
