"""A walk over a file, in order, that sums up what it passes and believes no length."""

import zlib
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drivetrain.core.errors import FileFormatError

_PIECE_NBYTES = 2**18  # stays in the cache between reading and summing up


class Walk:
    """Reads a file from `position` to `end`."""

    def __init__(self, path: Path, file: BufferedReader, position: int, end: int) -> None:
        self._path, self._file, self._end = path, file, end
        self.position = position
        self.crc = 0
        self._piece = memoryview(bytearray(_PIECE_NBYTES))
        file.seek(position)

    def take(self, nbytes: int) -> bytes:
        """The next bytes.

        Raises:
            FileFormatError: There are fewer.
        """
        data = self._file.read(nbytes) if nbytes <= self._end - self.position else b""
        if len(data) != nbytes:
            raise self.truncated()
        self.crc = zlib.crc32(data, self.crc)
        self.position += nbytes
        return data

    def array(self, dtype: Any, count: int) -> npt.NDArray[Any]:
        """The next `count` numbers."""
        return np.frombuffer(self.take(count * np.dtype(dtype).itemsize), dtype)

    def skip(self, nbytes: int) -> int:
        """Sum up the next bytes and keep none; returns where they begin."""
        begin = self.position
        if nbytes > self._end - begin:
            raise self.truncated()
        while (left := begin + nbytes - self.position) > 0:
            piece = self._piece[: min(left, len(self._piece))]
            if self._file.readinto(piece) != len(piece):
                raise self.truncated()
            self.crc = zlib.crc32(piece, self.crc)
            self.position += len(piece)
        return begin

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left."""
        return self.position == self._end

    def truncated(self) -> FileFormatError:
        """What to raise where a file ends too early."""
        return FileFormatError(f"{self._path}: truncated or damaged; use an older copy")

    def damaged(self, how: str) -> FileFormatError:
        """What to raise where something cannot be."""
        return FileFormatError(f"{self._path}: damaged ({how}); use an older copy")
