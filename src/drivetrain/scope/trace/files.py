"""What the files of every session have in common: headers that are whole, and tables of sites."""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np

from drivetrain.core.errors import FileFormatError
from drivetrain.scope import _native
from drivetrain.scope.sites import CLASSES, Site

LATEST_NS = 1 << 62
"""Beyond any clock: 146 years."""
_MOST_SITES = 1 << 24
"""Of a process: far more than any has names for."""


def header_of(file: Path, raw: bytes, form: np.dtype[Any], magic: bytes, what: str) -> Any:
    """The header that a file begins with; None where its writer was killed before it was whole.

    Raises:
        FileFormatError: It is another kind of file than `what`, or of another version.
    """
    if len(raw) < form.itemsize or raw[:8] == bytes(8):
        return None
    header = np.frombuffer(raw, form, 1)[0]
    if header["magic"] != magic or header["version"] != _native.VERSION:
        raise FileFormatError(f"{file}: expected {what} of version {_native.VERSION}, got another kind of file")
    return header


def read_json(file: Path) -> dict[str, Any]:
    """What a file of ours says.

    Raises:
        FileFormatError: It is damaged.
    """
    try:
        found: Any = json.loads(file.read_text())
    except ValueError as error:
        raise FileFormatError(f"{file}: expected JSON, got a damaged file ({error}); record again") from error
    if not isinstance(found, dict):
        raise FileFormatError(f"{file}: expected JSON with names and values, got {type(found).__name__}; record again")
    return cast(dict[str, Any], found)


def sites_of(folder: Path, pid: int, start: int) -> dict[int, Site]:
    """The sites that a process has named, by its numbers for them; none where it named none.

    Raises:
        FileFormatError: The file is damaged.
    """
    found: dict[int, Site] = {}
    file = folder / f"{pid}-{start}.sites"
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            entry: Any = json.loads(line)
        except json.JSONDecodeError:  # cut off by a kill
            continue
        if not isinstance(entry, dict):
            raise FileFormatError(f"{file}: expected a whole number and texts, got {entry!r}; record again")
        entry = cast("dict[str, Any]", entry)
        number = entry.pop("number")
        is_number = type(number) is int and 0 <= number < _MOST_SITES
        if not is_number or not all(type(text) is str for text in entry.values()):
            raise FileFormatError(
                f"{file}: expected a whole number and texts, got {number!r} and {entry}; record again"
            )
        found[number] = Site(**entry)
        if found[number].time_class not in ("", *CLASSES):
            raise FileFormatError(
                f"{file}: expected a class of {', '.join(CLASSES)}, got {found[number].time_class!r}; record again"
            )
    return found
