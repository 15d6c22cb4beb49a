"""A session's folder, whatever form its trace is in: segments as they were recorded, or packed.

FOLDER/session.json, *.events, *.sites, ...   ->  pack  ->  FOLDER/session.json, trace.parquet, gpu.parquet
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.core.extras import naming_extra
from drivetrain.core.paths import given_path
from drivetrain.scope import notes
from drivetrain.scope.trace import damage, segments
from drivetrain.scope.trace.events import Trace

PACKED = "trace.parquet"
PACKED_GPU = "gpu.parquet"
"""Where devices were recorded only."""
_REPLACED = ("*.events", "*.sites", "*.gpu", "*.gpu-names", "gpu.readings", notes.PATTERN, "shared")


def is_part(folder: Path, file: Path) -> bool:
    """Whether a file belongs to what a session recorded, and must not be written over."""
    kept = (folder / name for name in ("session.json", PACKED, PACKED_GPU))
    return file.resolve() in {one.resolve() for one in (*kept, *_replaced(folder)) if one.exists()}


def _replaced(folder: Path) -> Iterator[Path]:
    """What was recorded; of other files, as reports that were written here, none."""
    for pattern in _REPLACED:
        yield from folder.glob(pattern)
    yield from (file for file in folder.glob("*.json") if segments.PROCESS_FILE.fullmatch(file.name))


def read(folder: Path) -> Trace:
    """The trace of a session.

    Raises:
        FileFormatError: The folder holds no session, or one that is damaged or of another version.
        MissingExtra: It is packed, and PyArrow is not installed.
    """
    try:
        trace = _read(folder)
        wrong = damage.found_in(trace)
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:  # missing, cut, another kind
        raise FileFormatError(
            f"{folder}: expected the recording of a session, got a damaged one ({type(error).__name__}: {error}); "
            "record again"
        ) from error
    if wrong is not None:
        raise FileFormatError(f"{folder}: expected {wrong}: the recording is damaged; record again")
    return trace


def _read(folder: Path) -> Trace:
    # A pack that was cut short leaves both: then the packed file is whole, for it comes first.
    if (folder / PACKED).exists():
        with naming_extra():  # segments do without
            from drivetrain.scope.trace import gpu_parquet, parquet
        trace = parquet.read(folder / PACKED)
        with_gpu = (folder / PACKED_GPU).exists()
        return replace(trace, gpu=gpu_parquet.read(folder / PACKED_GPU)) if with_gpu else trace
    return segments.read_folder(folder)


def pack(path: str | os.PathLike[str]) -> None:
    """Replace the segments of a finished session by one Parquet file, a third of their size or less.

    Raises:
        InvalidInput: It is no path, or the session has not ended.
        FileFormatError: The folder holds no session.
        MissingExtra: PyArrow is not installed.
    """
    folder = given_path("path", path)
    with naming_extra():
        from drivetrain.scope.trace import gpu_parquet, parquet
    trace = read(folder)
    if "end_ns" not in trace.about:
        raise InvalidInput(f"{folder}: expected a session that has ended; this one still runs, or was killed")
    if not (folder / PACKED).exists():
        if trace.gpu is not None:  # first, for the file of the events says that all of it is whole
            gpu_parquet.write(trace.gpu, folder / PACKED_GPU)
        parquet.write(trace, folder / PACKED)
    for file in _replaced(folder):
        file.unlink()
