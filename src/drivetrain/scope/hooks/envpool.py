"""EnvPool: vector environments in C++, whose methods are those of one mixin, whatever interface they are made for.

`step` sends actions and receives what came of them, which programs that do something in between call by themselves.
"""

from types import ModuleType

from drivetrain.scope.hooks.gymnasium import SIMULATED
from drivetrain.scope.hooks.patch import record
from drivetrain.scope.sites import Site

_METHODS = ("step", "recv", "reset", "async_reset")


def install(module: ModuleType) -> None:
    """Hook the mixin. Resetting receives, too, and is no step; nothing but a step sends."""
    site = Site("EnvPool", "simulation", "simulator")
    mixin = vars(module)["EnvPoolMixin"]
    record(mixin, "send", site, ends_step=SIMULATED, collapses=True)
    for name in _METHODS:
        record(mixin, name, site, collapses=True)
