"""A session's folder, whatever form its trace is in: segments as they were recorded, or packed.

FOLDER/session.json, *.events, *.sites, ...   ->  pack  ->  FOLDER/session.json, trace.parquet
"""

from pathlib import Path

from drivetrain.core.errors import InvalidInput
from drivetrain.scope.trace import segments
from drivetrain.scope.trace.events import Trace

PACKED = "trace.parquet"
_REPLACED = ("*.events", "*.sites", "*-*.json", "*.not-captured", "shared")


def read(folder: Path) -> Trace:
    """The trace of a session.

    Raises:
        FileFormatError: The folder holds no session, or one of another version.
    """
    # A pack that was cut short leaves both: then the packed file is whole, for it comes first.
    if (folder / PACKED).exists():
        from drivetrain.scope.trace import parquet  # the extra `scope`, which segments do without

        return parquet.read(folder / PACKED)
    return segments.read_folder(folder)


def pack(folder: Path) -> None:
    """Replace the segments of a finished session by one Parquet file, a fifth of their size or less.

    Raises:
        InvalidInput: The session has not ended.
        FileFormatError: The folder holds no session.
    """
    from drivetrain.scope.trace import parquet

    trace = read(folder)
    if "end_ns" not in trace.about:
        raise InvalidInput(f"{folder}: expected a session that has ended; this one still runs, or was killed")
    if not (folder / PACKED).exists():
        parquet.write(trace, folder / PACKED)
    for pattern in _REPLACED:
        for file in folder.glob(pattern):
            file.unlink()
