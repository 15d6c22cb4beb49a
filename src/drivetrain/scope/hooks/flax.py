"""Flax: a network that is applied is a forward pass, of the jitted function that is being traced or by itself."""

from types import ModuleType
from typing import Any

from drivetrain.scope.hooks.jax import saw
from drivetrain.scope.hooks.patch import record
from drivetrain.scope.sites import FORWARD, Site


def install(module: ModuleType) -> None:
    """Hook what all modules of flax.linen are applied by."""
    framework: Any = module
    site = Site("flax apply", "", "backend", presumed=FORWARD)
    record(framework.Module, "apply", site, collapses=True, tell=saw(FORWARD))
