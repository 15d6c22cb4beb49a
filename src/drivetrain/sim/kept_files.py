"""Text kept on disk, whose last line is the hash of the rest: a file that was cut short or changed counts as none."""

import hashlib
import os
import tempfile
from pathlib import Path

MARK = "// sha256 "


def read_kept(path: Path) -> str | None:
    """The text of a file without its last line; None where it is not there, or the two do not fit."""
    try:
        text, mark, digest = path.read_text().rpartition(MARK)
    except (OSError, UnicodeDecodeError):
        return None
    return text if mark and hashlib.sha256(text.encode()).hexdigest() == digest.strip() else None


def write_kept(path: Path, text: str) -> None:
    """Write a file aside and rename it, so that others see all of it or nothing.

    Raises:
        OSError: The folder cannot be made or written to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".draft")
    with os.fdopen(handle, "w") as file:
        file.write(f"{text}{MARK}{hashlib.sha256(text.encode()).hexdigest()}\n")
    os.replace(draft, path)
