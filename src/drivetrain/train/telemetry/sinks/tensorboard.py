"""Rows of metrics as TensorBoard events, written by the caller's own thread.

tensorboardX's usual writer hands events to a thread, and waits for ever once that has died of a full
disk; so its records are written to their file here, each whole or not at all.

    record | length | its checksum | event | its checksum |
"""

import importlib
import importlib.util
import os
import socket
import struct
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drivetrain.train.run_dir.archives import append_whole
from drivetrain.train.telemetry.sinks.sink import Row

_PACKAGE = "tensorboardX"
_MODULES = ("record_writer", "proto.event_pb2", "proto.summary_pb2")
_EVENTS = "events.out.tfevents."


class TensorBoard:
    """A file of events in a folder for TensorBoard.

    Args:
        folder: Made if absent.
        kept: The rows that a resumed run goes on from; of all others TensorBoard is to forget what earlier files say.
            None: the run is new.
    """

    def __init__(self, folder: Path, kept: Sequence[Row] | None) -> None:
        self.name = str(folder)
        # Here: children load their frameworks meanwhile.
        records, event, summary = _parts_of_tensorboardx()
        self._crc: Any = records.masked_crc32c
        self._event: Any = event.Event
        self._summary: Any = summary.Summary
        folder.mkdir(exist_ok=True)
        moment = f"{_second(folder)}.{socket.gethostname()}.{os.getpid()}"
        self._file = (folder / f"{_EVENTS}{moment}").open("ab", buffering=0)
        self._write(file_version="brain.Event:2")
        if kept is not None:
            # Death may have come between a row and its event: the last one, and all from its step on, are told anew.
            start = int(kept[-1]["num_steps"]) if kept else 0
            self._write(step=start, session_log=event.SessionLog(status=event.SessionLog.START))
            for row in kept:
                if row["num_steps"] >= start:
                    self.write(row)

    def write(self, row: Row) -> None:
        """Add a row.

        Raises:
            OSError: There is no room; the file is as it was.
        """
        values = [
            self._summary.Value(tag=name, simple_value=value) for name, value in row.items() if name != "num_steps"
        ]
        self._write(step=int(row["num_steps"]), summary=self._summary(value=values))

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def _write(self, **fields: Any) -> None:
        data: bytes = self._event(wall_time=_now_s(), **fields).SerializeToString()
        length = struct.pack("<Q", len(data))
        sums = [struct.pack("<I", self._crc(piece)) for piece in (length, data)]
        append_whole(self._file, length + sums[0] + data + sums[1])


def _parts_of_tensorboardx() -> list[Any]:
    """The modules of tensorboardX that write events, without the package around them.

    That imports PyTorch where it is installed, for its graphs: 1.3 s of CPU time, 220 MiB. So its place is taken by an
    empty package while they load; whoever imports tensorboardX afterwards loads the whole one.
    """
    spec = None if _PACKAGE in sys.modules else importlib.util.find_spec(_PACKAGE)
    if spec is None:  # it is there as a whole; or it is not, and importing it says so
        return [importlib.import_module(f"{_PACKAGE}.{name}") for name in _MODULES]
    sys.modules[_PACKAGE] = importlib.util.module_from_spec(spec)
    try:
        return [importlib.import_module(f"{_PACKAGE}.{name}") for name in _MODULES]
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
            del sys.modules[name]


def _second(folder: Path) -> int:
    """The second for the name of a new file: now, or where clocks were set back or differ, or a run is resumed at once,
    behind those of files that are there. TensorBoard reads files in the order of their names.
    """
    names = (path.name.removeprefix(_EVENTS).partition(".")[0] for path in folder.glob(f"{_EVENTS}*"))
    return max([int(_now_s()), *(int(name) + 1 for name in names if name.isascii() and name.isdigit())])


def _now_s() -> float:
    return datetime.now(UTC).timestamp()
