"""Paths as callers give them: text or a path, `~` and `~user` for the folders of users; "-" is none.

What is called so itself is `./~user`, as in a shell, and `./-`.
"""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from drivetrain.core.errors import InvalidInput

NO_STREAM = "- stands for no standard stream here; write ./- for what is called so"


def folder_here() -> Path:
    """The folder in which this is called, by its full path.

    Raises:
        InvalidInput: It was removed: relative paths mean nothing there, and no process can start.
    """
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise InvalidInput(
            "the folder in which this was called does not exist any more; `cd` to one that does"
        ) from None


@contextmanager
def back_here() -> Generator[None]:
    """Whoever goes elsewhere in the block, this process is in its folder again behind it, even if that was removed."""
    here = os.open(".", os.O_PATH)
    try:
        yield
    finally:
        os.fchdir(here)
        os.close(here)


def given_path(name: str, value: object, expected: str = "a path") -> Path:
    """`value` as a path; what is there is not looked at.

    Args:
        name: Of the argument, for the error.
        value: Text or a path.
        expected: What it is to be, for the error.

    Raises:
        InvalidInput: It is neither, is empty, holds a character of code 0, is text of a dash alone, by which many
            programs mean a standard stream, or begins with `~` and the name of no user.
    """
    text = os.fspath(cast("os.PathLike[str]", value)) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:  # no text at all would be the present folder
        raise InvalidInput(f"{name}: expected {expected}, got {value!r}")
    text = str.__str__(text)  # of a member of an enumeration, which Path would call by its name up to Python 3.11
    if value == "-":
        raise InvalidInput(f"{name}: expected {expected}, got '-'; {NO_STREAM}")
    path = Path(text)
    if str(path) == "-" or (not text.startswith("~") and str(path).startswith("~")):  # a Path holds no ./ of ./~name
        return path.absolute()
    try:
        return path.expanduser()
    except RuntimeError as error:
        user = path.parts[0]
        raise InvalidInput(
            f"{name}: expected {expected}, got {text!r}, and {user} is no user's; write ./{user} for what is called so"
        ) from error


def resolved(path: Path) -> Path:
    """The full path without links, so that two that lead to one place are the same; what is there may be absent.

    Raises:
        InvalidInput: Links lead in a circle, for which `Path.resolve` raises a RuntimeError, up to Python 3.12.
    """
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InvalidInput(f"{path}: expected a path, got links that lead in a circle; choose another") from None
    return path.resolve()
