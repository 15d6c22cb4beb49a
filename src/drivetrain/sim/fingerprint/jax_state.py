"""What JAX keeps to itself and a trace depends on: settings, how classes are flattened, what `jit` was told.

The only file of the package that looks into JAX's private modules; what is not where it expects it escapes, and the
environment is traced. The cache of JAX's own traces depends on the same settings by the same list.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

import enum
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.core
import numpy as np

from drivetrain.sim.fingerprint.code import Escape
from drivetrain.sim.ir.importer import is_key

KNOWN = {(0, 10), (0, 11), (0, 12)}
"""Versions of JAX for which this, and the list in trusted.py, have been tested."""
JITTED = type(jax.jit(lambda: 0))
PLAIN = (type(None), bool, int, float, str, bytes, enum.Enum)
traced_for: Callable[[object], AbstractContextManager[None]] = jax.make_user_context("")
"""A context for traces that are to be kept. JAX keeps traces of inner functions, and finds them by the function alone,
whatever has become of the globals it reads; in this context only those that were made for the same fingerprint."""
OF_COMPILED_PROGRAMS = ("jax_compilation_cache_", "jax_persistent_cache_", "jax_platforms")


def private(module: str, name: str) -> Any:
    """Something of a private module of JAX."""
    found = getattr(importlib.import_module(module), name, None)
    if found is None:
        raise Escape(f"{module}.{name} of JAX {jax.__version__} is not there")
    return found


def settings() -> list[str]:
    """All that JAX's own caches of traces depend on, in this thread, and its configuration.

    Where JAX keeps what it has compiled is left out, and what it computes on, for which nothing that is listed asks:
    traces come before that, and each of our processes has its place.

    Raises:
        Escape: A version that is not known, or a context (a mesh, a mapped axis) with objects in it.
    """
    if jax.__version_info__[:2] not in KNOWN:
        raise Escape(f"JAX {jax.__version__} is not known")
    with jax.default_device(None):
        context: tuple[Any, ...] = private("jax._src.config", "trace_context")()
        values = sorted(item for item in jax.config.values.items() if not item[0].startswith(OF_COMPILED_PROGRAMS))
    return [jax.__version__, *(plain(x) for x in context), *(f"{name} {plain(x)}" for name, x in values)]


def plain(value: Any) -> str:
    """A setting as text."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(plain, value))})"
    if isinstance(value, frozenset):  # as of JAX 0.12
        return f"frozenset({', '.join(sorted(map(plain, value)))})"
    if value is private("jax._src.core", "top_axis_env"):
        return "no axes"
    if value is private("jax._src.mesh", "empty_abstract_mesh"):  # None until JAX 0.10
        return "no mesh"
    raise Escape(f"a setting of JAX is a {type(value).__qualname__}")


def registration(kind: type[Any]) -> tuple[Any, ...]:
    """The functions that flatten and unflatten a class; empty where JAX takes its instances for leaves."""
    if not jax.tree_util.is_tree_node(kind):
        return ()
    entry = private("jax._src.tree_util", "_registry").get(kind)
    if entry is None:
        return () if issubclass(kind, tuple) else escaped(f"how JAX flattens {kind.__qualname__} is not known")
    return tuple(entry)


def escaped(reason: str) -> Any:
    """Raise, in an expression."""
    raise Escape(reason)


def jitted(function: Any) -> tuple[Any, str]:
    """The function that `jax.jit` was given, and what it was told."""
    kept: dict[str, Any] = vars(function)
    info: Any = kept.get("_jit_info")
    if "_fun" not in kept or not hasattr(info, "_asdict"):
        raise Escape("what jax.jit was told is not known")
    told: dict[str, Any] = info._asdict()
    return kept["_fun"], repr({name: str(value) for name, value in told.items() if not name.startswith("fun_")})


def array(x: jax.Array) -> tuple[str, bytes]:
    """A concrete array: its type as traces see it, and its elements.

    Raises:
        Escape: It belongs to a trace, or is spread over devices.
    """
    if isinstance(x, jax.core.Tracer):
        raise Escape("a value of a trace")
    if not x.is_fully_addressable or len(x.devices()) != 1:
        raise Escape("an array on several devices")
    words: Any = jax.random.key_data(x) if is_key(x) else x
    return f"{x.aval!r} {x.sharding}", np.asarray(words).tobytes()
