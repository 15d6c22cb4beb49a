"""Gymnasium: step and reset of simulators are class `simulator`, of wrappers around them Python's.

Wrappers share one site that collapses: a stack of five costs one event pair, and the simulator inside another.
"""

from types import ModuleType
from typing import Any

from drivetrain.scope.hooks.patch import for_subclasses, record
from drivetrain.scope.sites import MEMBER, Site

SIMULATED = 1  # StepKind of the recorder

_WRAPPER = {name: Site(f"wrapper {name}", "simulation", "python") for name in ("step", "reset")}
# Vector environments that only pass on to others; all others simulate themselves.
_CONTAINERS = ("SyncVectorEnv", "AsyncVectorEnv", "VectorWrapper")


def install(module: ModuleType) -> None:
    """Hook all environments there are and will be."""
    framework: Any = module
    for_subclasses(framework.Env, lambda cls: _environment(cls, framework.Wrapper))
    vector = framework.vector
    containers = tuple(getattr(vector, name) for name in _CONTAINERS if hasattr(vector, name))
    for_subclasses(vector.VectorEnv, lambda cls: _environment(cls, containers))
    record(vector.async_vector_env, "_async_worker", MEMBER)


def _environment(cls: type, containers: type | tuple[type, ...]) -> None:
    is_container = issubclass(cls, containers)
    for name in ("step", "reset"):
        # Where it is defined, which may be a class that is no environment by itself.
        owner = next((base for base in cls.__mro__ if name in vars(base)), cls)
        site = _WRAPPER[name] if is_container else Site(f"{owner.__qualname__}.{name}", "simulation", "simulator")
        record(owner, name, site, ends_step=SIMULATED if name == "step" else -1, collapses=is_container)
