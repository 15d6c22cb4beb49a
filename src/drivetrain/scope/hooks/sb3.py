"""Stable-Baselines3: `train` of every algorithm, buffers, and vector environments in subprocesses."""

import importlib
from types import ModuleType
from typing import Any

from drivetrain.scope.hooks.gymnasium import SIMULATED
from drivetrain.scope.hooks.patch import for_subclasses, record
from drivetrain.scope.sites import MEMBER, Site

_REPLAY = Site("SB3 buffer", "replay", "python")
_BUFFER_METHODS = ("add", "extend", "sample", "_get_samples", "compute_returns_and_advantage", "swap_and_flatten")


def install(module: ModuleType) -> None:
    """Hook what `import stable_baselines3` has brought; the modules asked for are imported by then."""
    base: Any = importlib.import_module(f"{module.__name__}.common.base_class")
    buffers: Any = importlib.import_module(f"{module.__name__}.common.buffers")
    vector: Any = importlib.import_module(f"{module.__name__}.common.vec_env.base_vec_env")
    for_subclasses(base.BaseAlgorithm, _algorithm)
    for_subclasses(buffers.BaseBuffer, _buffer)
    record(vector.VecEnv, "step", Site("VecEnv.step", "simulation", "python"), ends_step=SIMULATED, collapses=True)
    record(importlib.import_module(f"{module.__name__}.common.vec_env.subproc_vec_env"), "_worker", MEMBER)


def _algorithm(cls: type) -> None:
    record(cls, "train", Site(f"{cls.__qualname__}.train", "backpropagation", "python"))


def _buffer(cls: type) -> None:
    for name in _BUFFER_METHODS:
        record(cls, name, _REPLAY, collapses=True)
