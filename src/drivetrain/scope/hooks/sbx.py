"""SBX: acting, by the policies' methods. Algorithms, buffers and vector environments are Stable-Baselines3's.

An update is one jitted program, backward pass and optimizer together: what Stable-Baselines3's hook calls `train`.
"""

from types import ModuleType
from typing import Any

from drivetrain.scope.hooks.patch import for_subclasses, record
from drivetrain.scope.sites import Site

_ACTING = Site("SBX policy", "inference", "python")
_METHODS = ("predict", "_predict", "predict_all", "forward", "prepare_obs", "reset_noise")


def install(module: ModuleType) -> None:
    """Hook the policies of all algorithms there are and will be."""
    framework: Any = module
    for_subclasses(framework.BaseJaxPolicy, _policy)


def _policy(cls: type) -> None:
    for name in _METHODS:
        record(cls, name, _ACTING, collapses=True)
