"""JAX: calls of jitted functions (tracing, compiling, dispatch; on the CPU often the computation) and waiting.

`jax.jit` keeps its arguments and its result's attributes; what it returns is recorded under the function's name, in
whatever operation is around. Nothing is synchronised that the program does not synchronise.
"""

import functools
from types import ModuleType
from typing import Any

from drivetrain.scope._native import Wrapped
from drivetrain.scope.hooks.patch import record
from drivetrain.scope.sites import Site
from drivetrain.scope.spans import span


def install(module: ModuleType) -> None:
    """Hook jax.jit and jax.block_until_ready."""
    jax: Any = module
    record(jax, "block_until_ready", Site("jax.block_until_ready", "", "accelerator_sync"))
    original = jax.jit

    @functools.wraps(original)
    def jit(*args: Any, **keywords: Any) -> Any:
        jitted = original(*args, **keywords)
        if not hasattr(jitted, "lower"):  # jit(static_argnames=...) gives a decorator first
            return functools.partial(_decorate, jitted)
        return _recorded(jitted, args[0] if args else None)

    jax.jit = jit


def _decorate(decorator: Any, function: Any) -> Any:
    return _recorded(decorator(function), function)


def _recorded(jitted: Any, function: Any) -> Any:
    name = getattr(function, "__qualname__", "function")
    return Wrapped(jitted, span(Site(f"jit {name}", "", "backend")))
