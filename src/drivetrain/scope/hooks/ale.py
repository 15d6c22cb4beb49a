"""The Arcade Learning Environment without Gymnasium: its interface is a class in C++, whose methods are no builtins."""

from types import ModuleType
from typing import Any

from drivetrain.scope.hooks.gymnasium import SIMULATED
from drivetrain.scope.hooks.patch import record_native
from drivetrain.scope.sites import Site


def install(module: ModuleType) -> None:
    """Hook the interface that `import ale_py` has brought."""
    framework: Any = module
    act = Site("ALEInterface.act", "simulation", "simulator")
    record_native(framework.ALEInterface, "act", act, ends_step=SIMULATED)
    record_native(framework.ALEInterface, "reset_game", Site("ALEInterface.reset_game", "simulation", "simulator"))
