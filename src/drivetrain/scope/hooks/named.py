"""Simulators that the command line names, as "package.module:Class.step": native or not, known to no framework.

Nothing tells a simulator among the functions of an extension module, a ctypes library or a module of NumPy code; who
runs the program knows. What is named is replaced, be it a builtin.
"""

import functools
import inspect
import os
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from drivetrain.core.errors import InvalidInput
from drivetrain.scope._native import Span, Wrapped
from drivetrain.scope.hooks.gymnasium import SIMULATED
from drivetrain.scope.notes import leave_note, take_note_back
from drivetrain.scope.sites import Site
from drivetrain.scope.spans import binds, span

VARIABLE = "DRIVETRAIN_SCOPE_SIMULATORS"
_BETWEEN = ","
_RUN_LATER = (inspect.isgeneratorfunction, inspect.isasyncgenfunction, inspect.iscoroutinefunction)


def checked(name: str) -> str:
    """The name of a simulator.

    Raises:
        InvalidInput: It is none.
    """
    module, colon, path = name.partition(":")
    words = [*module.split("."), *path.split(".")]
    if not colon or module == "__main__" or not all(word.isidentifier() for word in words):
        raise InvalidInput(
            "--simulator: expected MODULE:FUNCTION or MODULE:CLASS.METHOD of a module that the program imports, got "
            f"{name!r}"
        )
    return name


def joined(names: list[str]) -> str:
    """Names as the value of VARIABLE, by which the processes of a program know them."""
    return _BETWEEN.join(names)


@functools.cache
def by_module() -> dict[str, list[str]]:
    """What VARIABLE names: module -> paths in it."""
    return _by_module(os.environ.get(VARIABLE, ""))


def note_all_as_missing(folder: Path, value: str) -> None:
    """Say that no process of a program has imported a module with simulators; each says so itself when it has.

    Args:
        folder: The session's.
        value: Of VARIABLE.
    """
    for module, paths in _by_module(value).items():
        leave_note(folder, _cause(module), f"--simulator {module}:{paths[0]}: no process has imported {module}")


def note_as_found(folder: Path, module: str) -> None:
    """Take that back."""
    take_note_back(folder, _cause(module))


def _by_module(value: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in filter(None, value.split(_BETWEEN)):
        module, _, path = name.partition(":")
        found.setdefault(module, []).append(path)
    return found


def _cause(module: str) -> str:
    return f"simulator.{module}"


def install(module_name: str, module: ModuleType) -> None:
    """Record what is named of a module, which may call itself otherwise.

    Raises:
        InvalidInput: Some of it is not there, is no function whose calls are steps, or cannot be replaced; all else is
            recorded.
    """
    refused: list[str] = []
    for path in by_module()[module_name]:
        try:
            _install(module_name, module, path)
        except InvalidInput as error:
            refused.append(str(error))
        except Exception as error:  # of what a class makes of being written to
            refused.append(f"--simulator {module_name}:{path}: {type(error).__name__}: {error}")
    if refused:
        raise InvalidInput("; ".join(refused))


def _install(module_name: str, module: ModuleType, path: str) -> None:
    owner, name = _found(module_name, module, path)
    _require_steps(owner, name, f"{module_name}:{path}")
    site = Site(f"{module_name}.{path}", "simulation", "simulator")
    setattr(owner, name, _recorded(owner, name, span(site, ends_step=SIMULATED)))


def _found(module_name: str, module: ModuleType, path: str) -> tuple[Any, str]:
    """What has it, and its name there."""
    *outer, name = path.split(".")
    try:
        owner: Any = functools.reduce(getattr, outer, module)
        getattr(owner, name)
    except AttributeError:  # of a module that is still being imported Python would say that imports are circular
        whole = f"{module_name}:{path}"
        raise InvalidInput(f"--simulator {whole}: module {module_name} has no {path!r}") from None
    return owner, name


def _require_steps(owner: Any, name: str, whole: str) -> None:
    """Refuse what is not called once for each step."""
    found: object = getattr(owner, name)
    if isinstance(owner, type) and isinstance(inspect.getattr_static(cast(object, owner), name), classmethod):
        what = "a classmethod"
    elif isinstance(found, type):  # in whose place nothing else may stand: classes are inherited from
        what = f"a class; name one of its methods, as {whole}.step"
    elif not callable(found):
        what = f"an object of class {type(found).__name__}"
    elif any(is_kind(found) for is_kind in _RUN_LATER):
        what = "a generator or coroutine, which runs after its call; name what it calls for each step"
    else:
        return
    raise InvalidInput(f"--simulator {whole}: expected a function or a method of instances, got {what}")


def _recorded(owner: Any, name: str, inside: Span) -> Any:
    """What to put in its place. In a class, it must bind to an instance if and only if what was there did."""
    function = getattr(owner, name)
    if not isinstance(owner, type):
        return Wrapped(function, inside)
    own: object = inspect.getattr_static(cast(object, owner), name)
    is_method = binds(own) and not isinstance(own, staticmethod)
    return Wrapped(function, inside) if is_method else staticmethod(Wrapped(function, inside))
