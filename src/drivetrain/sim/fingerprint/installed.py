"""Whether trusted code is what it was: files as they lie there, and who is who in modules that have been imported.

A trace runs thousands of functions of JAX. Their versions say what they were; this says that nobody has edited a file
since, or put another function or class in the place of one.
"""

# Functions of any type are looked at by their code.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import os
import sys
from collections.abc import Mapping
from hashlib import blake2b
from types import ModuleType
from typing import Any

import jax

from drivetrain.core._native import functions_digest

LOOKED_AT = frozenset({"jax", "numpy", "ml_dtypes", "opt_einsum", "drivetrain"})
AFTERWARDS = ("jax.experimental", "jax._src.pallas", "jax._src.export", "jax._src.interpreters.mlir", "numpy.f2py",
              "numpy.ma", "numpy.polynomial", "numpy.random", "numpy.testing")  # fmt: skip
"""Of these, what no trace runs: what lowers, compiles and exports programs, and what is not trusted anyway."""
WRAPPERS = (type(jax.jit(lambda: 0)), jax.custom_jvp, jax.custom_vjp)
PRIMITIVE = type(jax.lax.add_p)


def installed() -> dict[str, str]:
    """For each module of JAX, NumPy and ours that is loaded: time and size of its file, and what its names mean."""
    others = Others()
    return {
        name: f"{file_of(module)} {meaning_of(module, others)}"
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in LOOKED_AT and not name.startswith(AFTERWARDS)
    }


def same(now: Mapping[str, str], before: Mapping[str, str]) -> bool:
    """Whether every module that is loaded in both is what it was; others load as their files say."""
    return all(before.get(name, told) == told for name, told in now.items())


def file_of(module: ModuleType) -> str:
    """Time and size of a module's file; nothing for what is built in."""
    path = getattr(module, "__file__", None)
    if path is None:
        return "-"
    try:
        told = os.stat(path)
    except OSError:
        return "gone"
    return f"{told.st_mtime_ns} {told.st_size}"


def meaning_of(module: ModuleType, others: "Others") -> str:
    """The hash of functions and classes that its names mean, of methods of its classes and rules of primitives."""
    names, own = vars(module), module.__name__
    told = [functions_digest(names)]
    for name in sorted([name for name, x in names.items() if others[type(x)]]):
        x = names[name]
        if isinstance(x, PRIMITIVE):
            told += [name.encode(), functions_digest(vars(x))]
        elif not isinstance(x, type):
            told.append(functions_digest({name: getattr(x, "__wrapped__", None)}))
        elif x.__name__ == name:  # because loops over sets of classes leave another one behind in each process
            told.append(f"{name} {x.__module__} {x.__qualname__}".encode())
            if x.__module__ == own:
                told.append(functions_digest(x))
    return blake2b(b"\0".join(told), digest_size=12).hexdigest()


class Others(dict[type[Any], bool]):
    """Whether values of a type are classes, made by `jit` and its like, or primitives; each type is looked at once."""

    def __missing__(self, kind: type[Any]) -> bool:
        self[kind] = held = issubclass(kind, (type, PRIMITIVE, *WRAPPERS))
        return held
