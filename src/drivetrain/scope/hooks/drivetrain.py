"""drivetrain's own parts, in its trainer or in anybody's program.

Environments of the trainer are Gymnasium's, and its updates one jitted call: those hooks see them too.
"""

from types import ModuleType

from drivetrain.scope.hooks.patch import record
from drivetrain.scope.sites import Site

_METHODS: dict[str, list[tuple[str, str, Site]]] = {
    "drivetrain.replay.buffer": [
        ("Replay", name, Site(f"Replay.{name}", "replay", "backend")) for name in ("sample", "update_priorities")
    ],
    "drivetrain.train.actor": [("Actor", "_write", Site("Writer.add", "replay", "backend"))],
    "drivetrain.train.learner": [("Learner", "update", Site("Learner.update", "backpropagation", "backend"))],
    "drivetrain.train.ledger": [
        ("Ledger", name, Site(f"Ledger.{name}", "", "wait"))
        for name in ("acquire", "wait_for_updates", "wait_for_round")
    ],
}
_POLICIES = "drivetrain.train.policies"


def install(module: ModuleType) -> None:
    """Hook the classes of one module."""
    for owner, method, site in _METHODS.get(module.__name__, ()):
        record(vars(module)[owner], method, site)
    if module.__name__ == _POLICIES:
        for cls in vars(module).values():
            if isinstance(cls, type) and cls.__module__ == module.__name__:
                record(cls, "explore", Site("Policy.explore", "inference", "backend"))
                record(cls, "act", Site("Policy.act", "inference", "backend"))
