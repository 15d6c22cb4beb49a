"""The format of replay files, version 3; numbers are little-endian.

    file    | magic, version, header bytes, their CRC-32 | header (JSON) | commit | commit | part | part ...
    commit  | number of a part, where it ends, CRC-32 of both |    part k is in place k % 2; zeros: none yet
    part    | state bytes | state (JSON) | block | block | ... | 0, 0, 0 | CRC-32 of the part |
    block   | rows, other leaves, frames: how many | slots of both | leaves of both | frames | rows |

The header has the settings; it decides how much memory is taken, so it is checked by itself and first.
Spaces at its end keep the commits within one sector.
The first part holds all rows, each later one what has changed since: new rows, leaves of rows that
stayed (0: the row is gone), new frames. What a slot holds is what was written for it last. Rows are in
the order of the ring, oldest at `next_slot` of the last state; frames are numbered through the file in
the order of their ring, and rows refer to these numbers. `moved` in a state: whoever wrote this part
had loaded the file, by which rows moved together, oldest first; slots from here on are the new ones.

A part counts once the commit that says where it ends is in the file, which is written after the part
has reached the disk. What lies behind the last committed part was being written by somebody who was
stopped: it is left out, with a warning. Likewise a last part that is cut short (an incomplete copy):
the commit before it then holds. Any other difference is damage, and the file is refused.

Versions 1 and 2 had one part, and are read as well:

    file    | magic, version, header bytes, their CRC-32 | header | block | ... | 0 | CRC-32 of all |
    block   | rows | (framed:) frames | frames | rows | leaves |
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from drivetrain.core.errors import FileFormatError
from drivetrain.replay import _native

MAGIC = b"DRVTRPLY"
VERSION = 3
HEAD = struct.Struct("<8sIII")
COMMIT = struct.Struct("<QQI")
COUNT = struct.Struct("<I")
BLOCK = struct.Struct("<III")
CRC = struct.Struct("<I")
MOST_ROWS = _native.EXPORT_ROWS
"""Rows in a block at most, and leaves."""
_MOST_NBYTES = 2**24  # in memory at once, about
ENTRY_NBYTES = 8
"""Of the slot and the leaf of a row."""
NUM_COMMITS = 2
SECTOR_NBYTES = 512
"""What a disk writes whole or not at all."""
MOST_STATE_NBYTES = 2**16

_COARSEST_UNIT, _FINEST_UNIT = 128, -64  # of any tree of any capacity, and some to spare


def pieces(begin: int, end: int, item_nbytes: int) -> Iterator[slice]:
    """Items [begin, end) of a size, by those that are read or written together."""
    step = max(1, min(MOST_ROWS, _MOST_NBYTES // item_nbytes))
    for first in range(begin, end, step):
        yield slice(first, min(first + step, end))


@dataclass(frozen=True, kw_only=True)
class State:
    """What a part says of the whole replay."""

    max_priority: float
    random_block: int
    num_inserted: int
    next_slot: int
    alpha: float
    unit_exponent: int | None
    """Of the sum tree; None in files from before it was kept."""
    moved: bool = False

    def to_json(self) -> dict[str, Any]:
        """JSON-able form; `from_json` inverts it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any], capacity: int) -> "State":
        """A state from a file.

        Raises:
            ValueError: It is not one of a replay of this capacity.
        """
        state = cls(**values)
        unit: Any = values["unit_exponent"]
        whole: list[Any] = [values[name] for name in ("random_block", "num_inserted", "next_slot")]
        if not (
            all(isinstance(value, int) and 0 <= value < 2**64 for value in whole)
            and state.next_slot < capacity
            and isfinite(state.max_priority)
            and 0 <= state.max_priority < 2.0**128
            and 0 <= state.alpha <= 1
            and (unit is None or (isinstance(unit, int) and _FINEST_UNIT <= unit <= _COARSEST_UNIT))
        ):
            raise ValueError(f"a state that no replay has: {values}")
        return state


@dataclass(frozen=True)
class Commit:
    """The last part that counts, and where it ends."""

    number: int
    end: int

    def pack(self) -> bytes:
        """As it stands in the file."""
        words = COMMIT.pack(self.number, self.end, 0)[: -CRC.size]
        return words + CRC.pack(zlib.crc32(words))


def unpack_commits(data: bytes) -> list[Commit]:
    """The commits in the file, newest first: one, or two in a row.

    Raises:
        FileFormatError: Damaged; the message lacks the file's name.
    """
    commits: list[Commit] = []
    for place in range(NUM_COMMITS):
        packed = data[place * COMMIT.size : (place + 1) * COMMIT.size]
        commit = Commit(*COMMIT.unpack(packed)[:2])
        if packed == bytes(COMMIT.size):
            continue
        if packed != commit.pack() or commit.number % NUM_COMMITS != place:
            raise FileFormatError("damaged (it does not say where it ends)")
        commits.append(commit)
    commits.sort(key=lambda commit: -commit.number)
    numbers = [commit.number for commit in commits]
    if not numbers or numbers not in ([1], [numbers[0], numbers[0] - 1]):
        raise FileFormatError("damaged (it does not say where it ends)")
    return commits
