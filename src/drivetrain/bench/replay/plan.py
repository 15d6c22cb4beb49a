"""What `drivetrain bench replay` runs: which stores are open together, and what is asked of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from drivetrain.bench.replay.layouts import LAYOUTS

DRAWS = ("sample 32", "sample 256", "sample 1024", "update 32", "update 256", "update 1024")
INSERTS = ("insert 1", "insert 64")
TREE_CALLS = ("find 256", "update 256")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Contenders that are open at the same time, each with the same store, and timed in turn.

    Attributes:
        name: Heading of its table.
        request: What opens the store in a contender's process.
        phases: Operations, phase after phase. Inserts come last: thousands of them leave a buffer
            of new rows, all of the largest priority, which no training would see.
    """

    name: str
    request: dict[str, Any]
    phases: Sequence[Sequence[str]]

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


def tree_group(leaves: int) -> Group:
    """Trees alone."""
    request = {"do": "open tree", "leaves": leaves}
    return Group(name=f"tree of {power(leaves)} leaves", request=request, phases=(TREE_CALLS,))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is run.

    Attributes:
        groups: One after the other.
        num_rounds: How often everybody is timed at everything.
        slice_s: How long each time.
    """

    groups: Sequence[Group]
    num_rounds: int = 7
    slice_s: float = 0.1


def full_plan() -> Plan:
    """Everything that the tables of the documentation show."""
    vectors = [buffer_group(layout, 2**e) for layout in ("obs 4", "obs 17") for e in (14, 17, 20)]
    frames = [buffer_group(layout, 2**13) for layout in ("84x84x4 pairs", "84x84x4 shared")]
    return Plan(groups=[*vectors, *frames, *(tree_group(2**e) for e in (17, 20, 24))])


def quick_plan() -> Plan:
    """About a minute's worth of it: it shows that everything runs, and little about who is ahead."""
    groups = [buffer_group("obs 4", 2**17), buffer_group("84x84x4 shared", 2**10), tree_group(2**17)]
    return replace(full_plan(), groups=groups, num_rounds=2, slice_s=0.02)
