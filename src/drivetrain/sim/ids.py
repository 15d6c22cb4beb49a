"""Gymnasium's registry knows our environments: "drivetrain/CartPole-v1" for `gymnasium.make` and `make_vec`.

Entries are strings, so nothing but Gymnasium itself is imported here.
"""

# Gymnasium is typed in part.
# pyright: reportUnknownMemberType=false

import importlib.util

from drivetrain.sim.registry import ENVIRONMENTS

NAMESPACE = "drivetrain"


def register() -> None:
    """Register every environment of ours that is not there yet; nothing happens where Gymnasium is not installed."""
    if importlib.util.find_spec("gymnasium") is None:
        return
    import gymnasium

    for name in ENVIRONMENTS:
        if f"{NAMESPACE}/{name}" not in gymnasium.registry:
            gymnasium.register(
                id=f"{NAMESPACE}/{name}",
                entry_point="drivetrain.sim.gymnasium.single:SimEnv",
                vector_entry_point="drivetrain.sim.vector:make_vec",
                kwargs={"env": name},
            )
