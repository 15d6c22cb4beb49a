"""Where results go: looked at before there are any."""

import os
from pathlib import Path

from drivetrain.core.errors import InvalidInput
from drivetrain.core.paths import resolved


def require_folders(*paths: Path | None) -> None:
    """Refuse files that could not be written, before the work that fills them; None: not asked for.

    Raises:
        InvalidInput: A folder does not exist or lets nothing be written, the path is no file's, or two are the same.
    """
    known = set[Path]()
    for path in paths:
        if path is None:
            continue
        file = resolved(path)
        folder = file.parent
        if not folder.is_dir():
            raise InvalidInput(f"{path}: its folder does not exist; make it first")
        if path.exists() and not path.is_file():
            raise InvalidInput(f"{path}: expected the name of a file, got a folder or a device; name a file")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InvalidInput(f"{path}: its folder lets nothing be written; choose another")
        if file in known:
            raise InvalidInput(f"{path}: expected files of their own, got this one twice; name two")
        known.add(file)
