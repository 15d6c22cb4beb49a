"""Which stores are open at the same time, and what is asked of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from drivetrain.bench.replay.layouts import LAYOUTS

DRAWS = ("sample 32", "sample 256", "sample 1024", "update 32", "update 256", "update 1024")
INSERTS = ("insert 1", "insert 64")
SAMPLES = ("sample 32", "sample 256", "sample 1024")
TREE_CALLS = ("find 256", "update 256")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Contenders that are open at the same time, each with the same store, and timed in turn.

    Attributes:
        name: Heading of its table.
        request: What opens the store in a contender's process.
        phases: Operations, phase after phase. Inserts come last: thousands of them leave a buffer
            of new rows, all of the largest priority, which no training would see.
        all_cores: Everybody may compute with as many threads as it likes, not with one.
    """

    name: str
    request: dict[str, Any]
    phases: Sequence[Sequence[str]]
    all_cores: bool = False

    @property
    def is_tree(self) -> bool:
        """Whether trees alone are measured."""
        return self.request["do"] == "open tree"


def power(count: int) -> str:
    """A power of two as one reads it."""
    return f"2^{count.bit_length() - 1}" if count & (count - 1) == 0 else f"{count:,}"


def buffer_group(layout: str, capacity: int) -> Group:
    """Whole buffers of a layout."""
    request = {"do": "open", "layout": LAYOUTS[layout].name, "capacity": capacity}
    return Group(name=f"{layout}, {power(capacity)} rows", request=request, phases=(DRAWS, INSERTS))


def all_cores_group(layout: str, capacity: int) -> Group:
    """Samples of whole buffers of a layout, for which everybody may use all cores."""
    pinned = buffer_group(layout, capacity)
    return replace(pinned, name=f"{pinned.name}, all cores", phases=(SAMPLES,), all_cores=True)


def tree_group(leaves: int) -> Group:
    """Trees alone."""
    request = {"do": "open tree", "leaves": leaves}
    return Group(name=f"tree of {power(leaves)} leaves", request=request, phases=(TREE_CALLS,))
