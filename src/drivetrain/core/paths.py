"""Paths as callers give them: text or a path, `~` and `~user` for the folders of users."""

import os
from pathlib import Path
from typing import cast

from drivetrain.core.errors import InvalidInput


def given_path(name: str, value: object, expected: str = "a path") -> Path:
    """`value` as a path; what is there is not looked at.

    Args:
        name: Of the argument, for the error.
        value: Text or a path.
        expected: What it is to be, for the error.

    Raises:
        InvalidInput: It is neither, is empty, or begins with `~` and the name of no user.
    """
    text = os.fspath(cast("os.PathLike[str]", value)) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text:  # no text at all would be the present folder
        raise InvalidInput(f"{name}: expected {expected}, got {value!r}")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        user = Path(text).parts[0]
        raise InvalidInput(
            f"{name}: expected {expected}, got {text!r}, and {user} is no user's; write ./{user} for what is called so"
        ) from error
