"""What every contender's process does around its store: read a request, carry it out, answer.

One JSON object per line, over the socket whose descriptor is the only argument:

    {"do": "open", "layout", "capacity"}         -> {} or {"memory_nbytes"}
    {"do": "open tree", "leaves"}                -> {}
    {"do": "measure", "name", "slice_s"}         -> a Timing
    {"do": "open crowd", "layout", "capacity"}   -> {}
    {"do": "rate", "how", "members", "seconds"}  -> {"members": [...]}     crowd.py

or {"missing": why} where the library does not have it, or {"error": what} where it failed.
"""

import gc
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drivetrain.bench import serving
from drivetrain.bench.replay.crowd import Crowd
from drivetrain.bench.replay.layouts import LAYOUTS, Layout
from drivetrain.bench.replay.operations import (
    fill,
    insert_operation,
    make_operation,
    make_tree_operation,
    settle,
)
from drivetrain.bench.replay.store import Sharing, Store, TreeStore
from drivetrain.bench.replay.timing import Operation, block_size, time_slice
from drivetrain.bench.serving import NotOffered

FILL_ENVS = 64
WARM_UP_CAPACITY = 1024
SETTLE_BATCH = 1024
SETTLE_ROUNDS = 3  # after updates of so many times the capacity, few rows have their first priority

MakeOperation = Callable[[Any, Layout, str], Operation]


@dataclass(frozen=True)
class Offer:
    """What a contender's file has.

    Attributes:
        make_store: Makes an empty store.
        make_tree: Makes a tree of so many leaves; None where there is none to be had alone.
        sharing: How several threads or processes use a buffer; None where they cannot.
        operation_of: Makes an operation of a store; for contenders that need other arguments.
    """

    make_store: Callable[[Layout, int], Store]
    make_tree: Callable[[int], TreeStore] | None = None
    sharing: Sharing | None = None
    operation_of: MakeOperation = make_operation


class Session:
    """What is open in this process, and its operations as they were first asked for."""

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.find_operation: Callable[[str], Operation] | None = None
        self.known: dict[str, tuple[Operation, int]] = {}
        self.crowd: Crowd | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request."""
        match request["do"]:
            case "open":
                return self.open_store(LAYOUTS[request["layout"]], request["capacity"])
            case "open tree":
                return self.open_tree(request["leaves"])
            case "open crowd":
                return self.open_crowd(LAYOUTS[request["layout"]], request["capacity"])
            case "measure":
                return self.measure(request["name"], request["slice_s"])
            case _:
                return self.rate(request["how"], request["members"], request["seconds"])

    def open_store(self, layout: Layout, capacity: int) -> dict[str, Any]:
        """Make and fill a store; of images also its memory, after whatever a first store compiles."""
        make = self.offer.make_store
        if layout.frames:
            fill_store(make(layout, WARM_UP_CAPACITY), layout, WARM_UP_CAPACITY)
        gc.collect()
        before = resident_nbytes()
        store = make(layout, capacity)
        made = resident_nbytes()
        grown = fill_store(store, layout, capacity)
        self.find_operation = lambda name: self.offer.operation_of(store, layout, name)
        return {"memory_nbytes": made - before + grown} if layout.frames else {}

    def open_tree(self, leaves: int) -> dict[str, Any]:
        """Make a tree with every leaf set."""
        if self.offer.make_tree is None:
            raise NotOffered("it has no tree that can be used alone")
        tree = self.offer.make_tree(leaves)
        self.find_operation = lambda name: make_tree_operation(tree, name)
        return {}

    def measure(self, name: str, slice_s: float) -> dict[str, Any]:
        """Time one operation for a slice."""
        assert self.find_operation is not None, "open something first"
        if name not in self.known:
            operation = self.find_operation(name)
            self.known[name] = operation, block_size(operation)
        operation, calls = self.known[name]
        return asdict(time_slice(operation, calls=calls, slice_s=slice_s))

    def open_crowd(self, layout: Layout, capacity: int) -> dict[str, Any]:
        """Make the first buffer that several will use."""
        if self.offer.sharing is None:
            raise NotOffered("a buffer of one thread of one process")
        self.crowd = Crowd(layout, capacity, self.offer.sharing, fill_store)
        self.crowd.company(0)
        return {}

    def rate(self, how: str, members: Sequence[Mapping[str, Any]], seconds: float) -> dict[str, Any]:
        """Have several play at once."""
        assert self.crowd is not None, "open a crowd first"
        return {"members": self.crowd.rate(how, members, seconds)}


def fill_store(store: Store, layout: Layout, capacity: int) -> int:
    """Fill a store and give its rows priorities; what the process grew by meanwhile."""
    insert, num_envs = filling(store, layout)
    ready = resident_nbytes()
    fill(insert, -(-capacity // num_envs))
    batch = min(SETTLE_BATCH, max(1, capacity // 4))  # who shares frames may hold fewer rows than its capacity
    settle(store, batch, SETTLE_ROUNDS * capacity // batch)
    return resident_nbytes() - ready  # the inputs were there before, and still are


def filling(store: Store, layout: Layout) -> tuple[Operation, int]:
    """How to fill a store: by many environments, or by one where it takes only one."""
    try:
        return insert_operation(store, layout, FILL_ENVS), FILL_ENVS
    except NotOffered:
        return insert_operation(store, layout, 1), 1


def serve(offer: Offer) -> None:
    """Answer requests until the other side hangs up."""
    serving.serve(Session(offer).answer)


def resident_nbytes() -> int:
    """Memory of this process that is really there."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
