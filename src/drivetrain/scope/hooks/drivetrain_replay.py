"""drivetrain's own replay, in its trainer or in anybody's: sampling and updating priorities.

Environments of the trainer are Gymnasium's and its updates are jitted, so that their hooks see them.
"""

from types import ModuleType

from drivetrain.scope.hooks.patch import record
from drivetrain.scope.sites import Site


def install(module: ModuleType) -> None:
    """Hook the buffer."""
    for name in ("sample", "update_priorities", "new_batch"):
        record(vars(module)["Replay"], name, Site(f"Replay.{name}", "replay", "backend"))
