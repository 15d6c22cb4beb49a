"""Text kept on disk, whose last line is the hash of the rest: a file that was cut short or changed counts as none."""

import hashlib
from pathlib import Path

from drivetrain.core.aside import save_text

MARK = "// sha256 "


def read_kept(path: Path) -> str | None:
    """The text of a file without its last line; None where it is not there, or the two do not fit."""
    try:
        text, mark, digest = path.read_text().rpartition(MARK)
    except (OSError, UnicodeDecodeError):
        return None
    return text if mark and hashlib.sha256(text.encode()).hexdigest() == digest.strip() else None


def write_kept(path: Path, text: str) -> None:
    """Write a file so that others see all of it or nothing.

    Raises:
        OSError: The folder cannot be made or written to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    save_text(path, f"{text}{MARK}{hashlib.sha256(text.encode()).hexdigest()}\n")
