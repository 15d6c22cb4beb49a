"""What every contender's process does around its store: read a request, carry it out, answer.

One JSON object per line, over the socket whose descriptor is the only argument:

    {"do": "open", "layout", "capacity"}         -> {"memory_nbytes"}      makes and fills a store
    {"do": "open tree", "leaves"}                -> {}
    {"do": "measure", "name", "slice_s"}         -> a Timing
    {"do": "rate", "how", "roles", "seconds"}    -> {"members": [...]}     crowd.py

or {"missing": why} where the library does not have it, or {"error": what} where it failed.
"""

import json
import os
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drivetrain.bench.replay.layouts import LAYOUTS, Layout
from drivetrain.bench.replay.operations import fill, make_operation, make_tree_operation, settle
from drivetrain.bench.replay.store import NotOffered, Store, TreeStore
from drivetrain.bench.replay.timing import Operation, block_size, time_slice

FILL_ENVS = 64
SETTLE_BATCH = 1024
SETTLE_ROUNDS = 3  # after updates of so many times the capacity, few rows have their first priority

MakeOperation = Callable[[Any, Layout, str], Operation]


class Session:
    """The store that is open, and its operations as they were first asked for."""

    def __init__(
        self,
        make_store: Callable[[Layout, int], Store] | None,
        make_tree: Callable[[int], TreeStore] | None,
        operation_of: MakeOperation = make_operation,
    ) -> None:
        self.make_store = make_store
        self.make_tree = make_tree
        self.operation_of = operation_of
        self.find_operation: Callable[[str], Operation] | None = None
        self.known: dict[str, tuple[Operation, int]] = {}

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request."""
        if request["do"] == "open":
            return self.open_store(LAYOUTS[request["layout"]], request["capacity"])
        if request["do"] == "open tree":
            return self.open_tree(request["leaves"])
        return self.measure(request["name"], request["slice_s"])

    def open_store(self, layout: Layout, capacity: int) -> dict[str, Any]:
        """Make and fill a store; its memory is what the process grew by, less the inputs."""
        if self.make_store is None:
            raise NotOffered("only its tree is measured")
        before = resident_nbytes()
        store = self.make_store(layout, capacity)
        made = resident_nbytes()
        insert, num_envs = self.filling(store, layout)
        ready = resident_nbytes()
        fill(insert, -(-capacity // num_envs))
        batch = min(SETTLE_BATCH, capacity)
        settle(store, batch, SETTLE_ROUNDS * capacity // batch)
        self.find_operation = lambda name: self.operation_of(store, layout, name)
        return {"memory_nbytes": resident_nbytes() - ready + made - before}

    def filling(self, store: Store, layout: Layout) -> tuple[Operation, int]:
        """How to fill a store: by many environments, or by one where it takes only one."""
        try:
            return make_operation(store, layout, f"insert {FILL_ENVS}"), FILL_ENVS
        except NotOffered:
            return make_operation(store, layout, "insert 1"), 1

    def open_tree(self, leaves: int) -> dict[str, Any]:
        """Make a tree with every leaf set."""
        if self.make_tree is None:
            raise NotOffered("it has no tree that can be used alone")
        tree = self.make_tree(leaves)
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


def serve(
    make_store: Callable[[Layout, int], Store] | None,
    make_tree: Callable[[int], TreeStore] | None = None,
    operation_of: MakeOperation = make_operation,
) -> None:
    """Answer requests until the other side hangs up.

    Args:
        make_store: Makes an empty store; None where there is only a tree.
        make_tree: Makes a tree of so many leaves; None where there is none to be had alone.
        operation_of: Makes an operation of a store; for contenders that need other arguments.
    """
    session = Session(make_store, make_tree, operation_of)
    with socket.socket(fileno=int(sys.argv[1])) as connection, connection.makefile("rw") as lines:
        for line in lines:
            try:
                answer = session.answer(json.loads(line))
            except NotOffered as reason:
                answer = {"missing": str(reason)}
            except Exception as error:
                traceback.print_exc()  # into the log
                answer = {"error": f"{type(error).__name__}: {error}"}
            lines.write(json.dumps(answer) + "\n")
            lines.flush()


def resident_nbytes() -> int:
    """Memory of this process that is really there."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
