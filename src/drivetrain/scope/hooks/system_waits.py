"""Waiting in builtins: time.sleep, locks, select, os.waitpid, sockets; where they call the C library.

Builtins stay what they are (hooks/waiting.py). What is changed is where the interpreter, and those of its modules that
wait, call the C library (cpp/include/drivetrain/linkage.hpp). `time` stands for the interpreter itself.
"""

from functools import cache
from types import ModuleType

from drivetrain.scope import _native
from drivetrain.scope.sites import Site, table

_NAMES = ("sleep", "lock", "select", "process", "socket")


def install(module: ModuleType) -> None:
    """Record what one module waits for.

    Raises:
        RuntimeError: Its calls of the C library are not where they are looked for.
    """
    _name_sites()
    name = module.__name__
    file = "" if name == "time" else getattr(module, "__file__", None)
    if file is None:  # part of the interpreter
        return
    if _native.record_waits(file, f"PyInit_{name}") == 0:
        raise RuntimeError("its calls of the C library were not found: waiting in its builtins counts as Python")


@cache
def _name_sites() -> None:
    _native.wait_sites(*(table.number(Site(f"waiting: {name}", "", "wait")) for name in _NAMES))
