"""Modules that a caller names, imported where they are needed: in this process, and in each process of a run.

A script that names itself is executed by that import. Were it to begin a run by it, that run's processes would import
it as well and begin runs of their own, and the processes of these as well: without end.
"""

import sys
import threading
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePath

from drivetrain.core.errors import InvalidInput


class _Importing(threading.local):
    """What this thread imports, the innermost last."""

    def __init__(self) -> None:
        self.names: list[str] = []


_importing = _Importing()


@contextmanager
def importing(what: str) -> Generator[None, None, None]:
    """While this lasts, `require_not_importing` refuses in this thread; `what`: the module, or what lies in it."""
    _importing.names.append(what)
    try:
        yield
    finally:
        _importing.names.pop()


def require_not_importing(call: str) -> None:
    """Refuse what a module does when it is imported because a run needs it.

    Raises:
        InvalidInput: `call` comes from such a module.
    """
    if _importing.names:
        raise InvalidInput(
            f"{call} is called by a module that is imported for a run ({_importing.names[-1]}), and would begin a run "
            'within that; put the call below `if __name__ == "__main__":`'
        )


def with_place(error: BaseException, sentence: str) -> str:
    """An error's kind, its sentence, and the file and line that it was raised at; or those that Python cannot read."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    file, line = place.filename, place.lineno
    if isinstance(error, SyntaxError) and error.filename is not None:
        sentence, file, line = error.msg, error.filename, error.lineno
    return f"{': '.join(filter(None, (type(error).__name__, sentence)))} ({file}, line {line})"


def require_module(name: str) -> None:
    """Let the name of a module pass.

    Raises:
        InvalidInput: It is empty, relative, or a file's.
    """
    expected = f"expected a module as `import` names it, got {name!r}"
    if "/" in name or name.endswith(".py"):
        raise InvalidInput(f"{expected}, a file; in its folder name it {PurePath(name).name.removesuffix('.py')}")
    if not name or name.startswith("."):
        raise InvalidInput(f"{expected}; give all of its name")


def is_found_anew(name: str) -> bool:
    """Whether a process that begins anew with our `sys.path` finds a module of ours, or else its package.

    Not so of one that was loaded from a file by its path, or made in memory.
    """
    package = name.partition(".")[0]
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]  # `import` asks no others
    return any(finder.find_spec(package, None) is not None for finder in finders)


def folder_of(name: str) -> Path | None:
    """The folder by which `sys.path` would find a module of ours, or its package; None: it is of no such file."""
    package = name.partition(".")[0]
    file = getattr(sys.modules.get(package), "__file__", None)
    if file is None:
        return None
    found = Path(file).absolute()
    found = found.parent if found.stem == "__init__" else found
    return found.parent if found.stem == package else None
