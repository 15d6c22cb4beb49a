"""Archives: named arrays and a few numbers in one .npz file, written in one step, never with pickle.

written_aside -> sync -> rename        a reader finds the old file or the new one, whole
"""

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.aside import write_all, written_aside
from drivetrain.core.errors import FileFormatError

Arrays = dict[str, NDArray[Any]]
"""Arrays by name; "/" groups them, as in "state/params/hidden0.weight"."""

_FORMAT = 1
_META = "meta.json"
# RuntimeError: one bit of the file says that it is encrypted, compressed in another way, or for a newer unzip.
_DAMAGED = (OSError, ValueError, KeyError, EOFError, TypeError, RuntimeError, zipfile.BadZipFile)


def save_archive(path: Path, kind: str, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> int:
    """Replace a file; how many bytes it has.

    Args:
        path: Of the file; its folder is made.
        kind: What it is; checked when it is read.
        arrays: By name.
        meta: JSON-able.

    Raises:
        OSError: It cannot be written; the old one is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": _FORMAT, "kind": kind, **meta})
    named: dict[str, Any] = {_META: np.frombuffer(text.encode(), np.uint8), **arrays}
    content = io.BytesIO()
    np.savez(content, **named)
    with written_aside(path) as file:
        write_all(file, content.getbuffer())
    return path.stat().st_size


def load_archive(path: Path, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """(arrays, meta) of a file.

    Raises:
        FileFormatError: It is absent, truncated, foreign, of another kind or of a newer version.
    """
    try:
        # Read whole first: a file replaced meanwhile must not give half of each.
        content = path.read_bytes()
        if not zipfile.is_zipfile(io.BytesIO(content)):  # NumPy would take it for a pickle, and speak of that
            raise ValueError("it is no .npz file, or not all of one")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays: Arrays = {name: file[name] for name in file.files}
        if _META not in arrays:
            raise ValueError(f"it has no {_META}")
        meta: Any = json.loads(bytes(arrays.pop(_META)))
    except (FileNotFoundError, NotADirectoryError) as error:  # also where a file lies in its folder's place
        raise FileFormatError(f"{path}: there is no {kind} here (yet)") from error
    except _DAMAGED as error:
        sentence = " ".join(str(error).split())
        raise FileFormatError(f"{path}: truncated, or no {kind} of drivetrain: {sentence}") from error
    return arrays, checked(path, kind, meta, _FORMAT)


def checked(path: Path, kind: str, meta: Any, newest: int) -> dict[str, Any]:
    """The description at the head of a file, if it is of this kind and of a format that can be read.

    Raises:
        FileFormatError: It is not.
    """
    found = cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}
    if found.get("kind") != kind:
        raise FileFormatError(f"{path}: expected a {kind}, got a {found.get('kind')!r}")
    version = found.get("format")
    if not is_count(version):
        raise FileFormatError(f"{path}: damaged: expected a whole number as its format, got {version!r}")
    if version > newest:
        raise FileFormatError(f"{path}: format {version} is newer than this drivetrain reads ({newest}); upgrade it")
    return found


def is_count(value: Any) -> TypeGuard[int]:
    """Whether what was read is a whole number from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def append_whole(file: IO[bytes], data: bytes) -> None:
    """Append to an unbuffered file, all or nothing.

    Raises:
        OSError: There is no room; the file, which the error names, is as it was.
    """
    end = os.fstat(file.fileno()).st_size
    try:
        write_all(file, memoryview(data))
    except OSError as error:
        error.filename = str(file.name)
        os.ftruncate(file.fileno(), end)
        raise


def is_removed(file: IO[bytes], path: Path) -> bool:
    """Whether somebody has removed or replaced an open file, or moved its folder, in whose place there is another, so
    that nobody will look there for what is written to it.
    """
    opened = os.fstat(file.fileno())
    if opened.st_nlink == 0:
        return True
    try:
        return not os.path.samestat(path.stat(), opened)
    except FileNotFoundError:
        return path.parent.is_dir()
