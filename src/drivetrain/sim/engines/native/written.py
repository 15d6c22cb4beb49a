"""A kernel as it is handed over by whoever writes it: C++, and what loading and running it have to know.

Kept as text: for each kernel a line of what is known of it, and its source.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

MARK = "// kernel "
"""What a kernel's first line begins with; no line of a source does."""
Form = Literal["tiles", "groups", "pairs"]
"""One tile after the other; groups of tiles, which share a branch (groups.py); two, which share weights (layers.py)."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """A kernel.

    Attributes:
        form: Which tiles it steps together.
        num_tiles: Of a turn of its loop over tiles: it runs over turns, and each begins with whole tiles.
        scratch_nbytes: Memory in each lane, of all tiles of a turn.
        heap_nbytes: How much of it lies on the heap, the rest on the stack.
        source: C++ without its prelude.
    """

    form: Form
    num_tiles: int = 1
    scratch_nbytes: int
    heap_nbytes: int = 0
    source: str

    @property
    def num_characters(self) -> int:
        """Of a step of one tile, about."""
        return len(self.source) // self.num_tiles


def text_of(kernels: Iterable[Written]) -> str:
    """Kernels as text."""
    lines: list[str] = []
    for each in kernels:
        known = {name: value for name, value in vars(each).items() if name != "source"}
        lines.append(f"{MARK}{json.dumps(known)}\n{each.source}")
    return "".join(lines)


def kernels_of(text: str) -> list[Written]:
    """The reverse of `text_of`."""
    kernels: list[Written] = []
    for part in re.split(f"(?m)^{MARK}", text)[1:]:
        known, _, source = part.partition("\n")
        kernels.append(Written(**json.loads(known), source=source))
    return kernels
