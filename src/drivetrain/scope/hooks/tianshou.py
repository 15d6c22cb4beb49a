"""Tianshou 1 and 2: updates of every algorithm (in version 1, of every policy), replay buffers, and vector
environments, whose members Gymnasium's hook sees.

Returns that an algorithm computes of a batch (n-step, GAE) are static functions of it, and part of the update.
"""

import importlib
from types import ModuleType
from typing import Any

from drivetrain.scope.hooks.gymnasium import SIMULATED
from drivetrain.scope.hooks.patch import for_subclasses, record
from drivetrain.scope.sites import MEMBER, Site

_REPLAY = Site("Tianshou buffer", "replay", "python")
_BUFFER_METHODS = ("add", "update", "sample", "sample_indices", "update_weight")


def install(module: ModuleType) -> None:
    """Hook the classes of one module."""
    framework: Any = module
    match module.__name__:
        case "tianshou.algorithm.algorithm_base":
            for_subclasses(framework.Algorithm, _algorithm)
        case "tianshou.policy.base":
            for_subclasses(framework.BasePolicy, _algorithm)
        case "tianshou.data.buffer.buffer_base" | "tianshou.data.buffer.base":
            for_subclasses(framework.ReplayBuffer, _buffer)
        case _:
            for name, ends_step in (("step", SIMULATED), ("reset", -1)):
                site = Site(f"Tianshou vector {name}", "simulation", "python")
                record(framework.BaseVectorEnv, name, site, ends_step=ends_step, collapses=True)
            record(importlib.import_module("tianshou.env.worker.subproc"), "_worker", MEMBER)


def _algorithm(cls: type) -> None:
    record(cls, "update", Site(f"{cls.__qualname__}.update", "backpropagation", "python"))


def _buffer(cls: type) -> None:
    for name in _BUFFER_METHODS:
        record(cls, name, _REPLAY, collapses=True)
