"""Whether trusted code is what it was: files as they lie there, and who is who in modules that have been imported.

A trace runs thousands of functions of JAX. Their versions say what they were; this says that nobody has edited a file
since, or put another function or class in the place of one.
"""

# Functions of any type are looked at by their code.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import marshal
import os
import sys
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from operator import attrgetter, itemgetter
from types import FunctionType, ModuleType
from typing import Any

import jax

LOOKED_AT = frozenset({"jax", "numpy", "ml_dtypes", "opt_einsum", "drivetrain"})
AFTERWARDS = ("jax.experimental", "jax._src.pallas", "jax._src.export", "jax._src.interpreters.mlir", "numpy.f2py",
              "numpy.ma", "numpy.polynomial", "numpy.random", "numpy.testing")  # fmt: skip
"""Of these, what no trace runs: what lowers, compiles and exports programs, and what is not trusted anyway."""
PLACE = attrgetter("__code__.co_filename", "__code__.co_firstlineno", "__code__.co_qualname")
KIND = attrgetter("__module__", "__qualname__")
WRAPPERS = (type(jax.jit(lambda: 0)), jax.custom_jvp, jax.custom_vjp)
PRIMITIVE = type(jax.lax.add_p)
WITHOUT_REFERENCES = 2
"""The version of marshal's format whose bytes do not depend on who else holds an object."""


def installed() -> dict[str, str]:
    """For each module of JAX, NumPy and ours that is loaded: time and size of its file, and what its names mean."""
    return {
        name: f"{file_of(module)} {meaning_of(module)}"
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


def meaning_of(module: ModuleType) -> str:
    """The hash of functions and classes that its names mean, of methods of its classes and rules of primitives."""
    names, own = sorted(vars(module).items(), key=itemgetter(0)), module.__name__
    # Under their own names, because loops over sets of classes leave another one behind in each process.
    kinds = {name: x for name, x in names if isinstance(x, type) and x.__name__ == name}
    wrapped = [(name, getattr(x, "__wrapped__", None)) for name, x in names if isinstance(x, WRAPPERS)]
    rules = [rule for _, x in names if isinstance(x, PRIMITIVE) for rule in sorted(vars(x).items())]
    told: list[Any] = [
        *functions_of(names),
        *functions_of(rules),
        *functions_of(wrapped),
        *kinds,
        *map(KIND, kinds.values()),
    ]
    for kind in kinds.values():
        if kind.__module__ == own:
            told += functions_of(vars(kind).items())
    return blake2b(marshal.dumps(told, WITHOUT_REFERENCES), digest_size=12).hexdigest()


def functions_of(names: Iterable[tuple[str, Any]]) -> list[Any]:
    """Names that mean functions in Python, and where the code of each is."""
    functions = [(name, x) for name, x in names if type(x) is FunctionType]
    return [*(name for name, _ in functions), *(PLACE(x) for _, x in functions)]
